"""Keep a drawing current: a thread listens to the event stream and wakes the one that draws."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Unpack

if TYPE_CHECKING:
    from interlock.client.http.client import Client
    from interlock.client.http.event_stream import EventFilter

PACE = 0.1  # least seconds between two looks, however much happens
REFRESH = 1.0  # most seconds between two looks: ages and durations grow though nothing happens


def draw(
    client: "Client", look: Callable[[], tuple[Any, bool]], transient: bool = False, **asked: "Unpack[EventFilter]"
) -> None:
    """Draw what `look` returns, now and after every change, until it also returns True. A server that stops meanwhile
    is waited for."""
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    from interlock.cli.tables import console
    from interlock.model.error import ConnectionLost, NotRunning

    shown, _ = look()  # before anything is drawn: without a server this raises
    with Live(shown, console=console(), auto_refresh=False, transient=transient, vertical_overflow="crop") as live:
        for _ in looks(client, **asked):
            try:
                shown, done = look()
                live.update(shown, refresh=True)
                if done:
                    return
            except (NotRunning, ConnectionLost) as error:
                live.update(Group(shown, Text(f"{error}; waiting for it", style="yellow")), refresh=True)


def looks(client: "Client", **asked: "Unpack[EventFilter]") -> Iterator[None]:
    """Yield at once, after each event, and at least every second; raise if the events are refused."""
    from interlock.model.error import InterlockError

    changed = threading.Event()
    failures: list[InterlockError] = []

    def listen() -> None:
        try:
            for _ in client.events(**asked):
                changed.set()
        except InterlockError as error:
            failures.append(error)
            changed.set()

    threading.Thread(target=listen, name="events", daemon=True).start()
    while True:
        changed.clear()
        yield
        time.sleep(PACE)
        changed.wait(REFRESH)
        if failures:
            raise failures[0]
