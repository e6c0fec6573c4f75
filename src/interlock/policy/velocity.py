"""Sliding windows: how many requests of one kind came lately."""

from collections import deque

MOST_TIMES = 1_000_000  # remembered requests over all rules; beyond it, rules with a velocity match


class Windows:
    """The times of the requests that rules with a velocity have let pass, by rule and key. They are kept in memory."""

    def __init__(self, most: int = MOST_TIMES) -> None:
        self._times: dict[tuple[str, str], deque[float]] = {}
        self._ends: dict[tuple[str, str], float] = {}  # when the last of the times leaves its window
        self._count = 0
        self._most = most

    def __len__(self) -> int:
        return self._count

    def exceeds(self, rule: str, key: str, most: int, window: float, now: float) -> bool:
        """Return whether `most` requests passed within the window; if not, count this one."""
        place = rule, key
        times = self._times.get(place)
        if times is None:
            times = self._times[place] = deque()
        elif times and times[-1] > now:  # the clock was set back
            self._times[place] = times = deque(min(one, now) for one in times)
        while times and times[0] <= now - window:
            times.popleft()
            self._count -= 1
        if len(times) >= most:
            return True
        if self._count >= self._most:
            self._forget(now)
            if self._count >= self._most:
                return True
        times.append(now)
        self._times[place] = times  # it may just have been forgotten, because it was empty
        self._ends[place] = now + window
        self._count += 1
        return False

    def _forget(self, now: float) -> None:
        """Forget the windows that have passed."""
        for place in [one for one in self._times if self._ends.get(one, now) <= now]:
            self._count -= len(self._times.pop(place))
            self._ends.pop(place, None)
