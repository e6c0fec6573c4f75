"""Keep a drawing current: a thread listens to the event stream and wakes the drawing one."""

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, Unpack

from interlock.cli.draw.tables import full_screen, out
from interlock.client.http.client import Client
from interlock.client.http.event_stream import EventOptions
from interlock.error import ConnectionLost, InterlockError, NotRunning

PACE = 0.1  # least seconds between two looks, even at a high rate of events
REFRESH = 1.0  # most seconds between two looks: ages and durations grow without events

T = TypeVar("T")


def draw(client: Client, look: Callable[[], tuple[Any, bool]], **asked: Unpack[EventOptions]) -> None:
    """Fill the screen with the drawing that `look` returns, now and after every change, until it also returns True. If
    the server stops meanwhile, wait for it."""
    from rich.console import Group
    from rich.text import Text

    shown, _ = look()  # before anything is drawn: without a server this raises
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # give the terminal its screen back
    with full_screen() as screen:
        for found in looks(client, look, **asked):
            if isinstance(found, InterlockError):
                screen.update(Group(Text(f"{found}; waiting for it", style="yellow"), shown), refresh=True)
                continue
            shown, done = found
            screen.update(shown, refresh=True)
            if done:
                return


def follow(
    client: Client, look: Callable[[], dict[str, tuple[Any, str]]], gone: str, **asked: Unpack[EventOptions]
) -> None:
    """Print the lines that `look` returns by name, each with a value to compare. Print a line again when its value
    changes, and its name with `gone` when it disappears."""
    known: dict[str, Any] = {}
    look()  # without a server this raises
    for found in looks(client, look, **asked):
        if isinstance(found, InterlockError):
            continue
        for name, (compared, line) in found.items():
            if name not in known or known[name] != compared:
                out(line)
        for name in known.keys() - found.keys():
            out(f"{name}\t{gone}")
        known = {name: compared for name, (compared, _) in found.items()}
        sys.stdout.flush()


def looks(client: Client, look: Callable[[], T], **asked: Unpack[EventOptions]) -> Iterator[T | InterlockError]:
    """Yield the result of `look` at once, after each event or new size of the terminal, and at least every second; if
    the server does not answer, yield the error. Raise if it refuses the events."""
    changed: SimpleQueue[None] = SimpleQueue()  # unlike an Event, safe to use in a signal handler
    failures: list[InterlockError] = []

    def listen() -> None:
        try:
            for _ in client.events(**asked):
                changed.put(None)
        except InterlockError as error:
            failures.append(error)
            changed.put(None)

    threading.Thread(target=listen, name="events", daemon=True).start()
    signal.signal(signal.SIGWINCH, lambda *_: changed.put(None))
    while True:
        while not changed.empty():
            changed.get()
        try:
            found: T | InterlockError = look()
        except (NotRunning, ConnectionLost) as error:
            found = error
        yield found
        time.sleep(PACE)
        with suppress(Empty):
            changed.get(timeout=REFRESH)
        if failures:
            raise failures[0]
