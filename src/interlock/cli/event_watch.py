"""Hearing of changes while something is drawn: a thread listens to the event stream and wakes whoever waits."""

import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Unpack

if TYPE_CHECKING:
    from interlock.client.http.client import Client
    from interlock.client.http.event_stream import EventFilter
    from interlock.model.error import InterlockError

PACE = 0.1
"""seconds between two looks at the most, however much happens"""


class Watcher:
    """Yields whenever there may be something new to see."""

    def __init__(self, client: "Client", **asked: "Unpack[EventFilter]") -> None:
        self._client = client
        self._asked = asked
        self._changed = threading.Event()
        self._failure: InterlockError | None = None

    def looks(self, longest: float) -> Iterator[None]:
        """Yield at once, after each change, and after `longest` seconds without one; raises if listening is refused."""
        threading.Thread(target=self._listen, name="events", daemon=True).start()
        while True:
            self._changed.clear()
            yield
            time.sleep(PACE)
            self._changed.wait(longest)
            if self._failure is not None:
                raise self._failure

    def _listen(self) -> None:
        from interlock.model.error import InterlockError

        try:
            for _ in self._client.events(**self._asked):
                self._changed.set()
        except InterlockError as error:
            self._failure = error
            self._changed.set()
