"""Offers: which attempts a worker may begin at once, and which only after asking the scheduler.

A worker that was paused finds old dispatches in its link. Another worker may have their runs by now, and the stop for
this one is further behind. So a dispatch is an offer that ends at an instant of the scheduler's elapsed time,
`begin_by`. Before that instant the scheduler gives the run to nobody else; after it no worker begins without asking.

The worker knows a bound of the scheduler's time: the scheduler reads its clock after the worker has sent the message
that it answers. An offer that may be older than a second is in doubt. The worker asks by sending a heartbeat. The
answer comes after everything that the scheduler sent before, and renews the offers that the heartbeat named and no stop
has withdrawn.
"""

from collections.abc import Iterable
from math import inf, nextafter

from msgspec.structs import force_setattr

from interlock.wire.message import Dispatch, Heard, Heartbeat, Held, Welcome
from interlock.worker.held import HeldAttempt

FRESH = 1.0  # seconds in which an offer may be begun without asking


class Offers:
    def __init__(self) -> None:
        self.taken: list[HeldAttempt] = []  # attempts to begin when everything that arrived with them is known
        self.doubtful: list[HeldAttempt] = []  # attempts to begin when the scheduler has answered
        self.asked: float | None = None  # elapsed time of the heartbeat that awaits its answer
        self._last = -inf  # time of the last heartbeat
        self._ahead = 0.0  # the most by which the scheduler's elapsed time is ahead of the worker's
        self._stands = inf  # seconds for which an offer stands

    def begin(self, welcome: Welcome, introduced: float) -> None:
        """Begin a link, on which the worker introduced itself at that elapsed time."""
        self._stands = welcome.offer
        self._ahead = welcome.now - introduced

    def take(self, dispatch: Dispatch) -> HeldAttempt:
        offered = dispatch.begin_by - self._stands - self._ahead
        held = HeldAttempt(dispatch, offered + min(FRESH, self._stands))
        force_setattr(dispatch, "begin_by", offered + self._stands)
        self.taken.append(held)
        return held

    def ready(self, now: float) -> list[HeldAttempt]:
        """Return the attempts that may be begun; the others are in doubt from now on."""
        ready = []
        for held in self.taken:
            if self.asked is not None or now > held.begin_by:
                self.doubtful.append(held)
            else:
                ready.append(held)
        self.taken = []
        return ready

    def heartbeat(self, every: Iterable[HeldAttempt], now: float) -> Heartbeat:
        """Return a heartbeat that names every attempt without an outcome. Its time is later than that of the previous
        heartbeat, so that answers to the two cannot be confused."""
        self._last = max(now, nextafter(self._last, inf))
        named = [held for held in every if held.outcome is None]
        for held in named:
            held.named = min(held.named, self._last)
        return Heartbeat([Held(*held.key, held.begun) for held in named], self._last)

    def must_ask(self) -> bool:
        self.doubtful = [held for held in self.doubtful if held.outcome is None]
        return bool(self.doubtful) and self.asked is None

    def confirm(self, heard: Heard, every: Iterable[HeldAttempt]) -> None:
        """Take the scheduler's answer to a heartbeat."""
        self._ahead = min(self._ahead, heard.now - heard.at)
        for held in every:
            if held.waits and held.named <= heard.at:
                held.begin_by = heard.now - self._ahead + self._stands
                force_setattr(held.dispatch, "begin_by", held.begin_by)
        if self.asked is not None and heard.at >= self.asked:
            self.asked = None
            self.taken += self.doubtful
            self.doubtful = []
