"""Sliding windows: how many requests of one kind came lately."""

from bisect import bisect_right

MOST_TIMES = 1_000_000  # remembered requests over all rules; beyond these bounds, rules with a velocity match
MOST_KEYS = 100_000
SWEEP_EVERY = 1.0  # seconds between two searches for windows that have passed


class Windows:
    """The times of the requests that rules with a velocity have let pass, by rule and key. They are kept in memory."""

    def __init__(self, most_times: int = MOST_TIMES, most_keys: int = MOST_KEYS) -> None:
        self._times: dict[tuple[str, str], list[float]] = {}
        self._ends: dict[tuple[str, str], float] = {}  # when the last of the times leaves its window
        self._count = 0
        self._most_times, self._most_keys = most_times, most_keys
        self._swept_at: float | None = None

    def __len__(self) -> int:
        return self._count

    def exceeds(self, rule: str, key: str, most: int, window: float, now: float) -> bool:
        """Return whether `most` requests passed within the window; if not, count this one."""
        window_key = rule, key
        times = self._times.get(window_key, [])
        if times and times[-1] > now:  # the clock was set back
            times[:] = [min(time, now) for time in times]
        old = bisect_right(times, now - window)
        del times[:old]
        self._count -= old
        if len(times) >= most or not self._has_room(window_key, now):
            return True
        times.append(now)
        self._count += 1
        self._times[window_key] = times
        self._ends[window_key] = now + window
        return False

    def _has_room(self, window_key: tuple[str, str], now: float) -> bool:
        if self._is_full(window_key) and (self._swept_at is None or not 0 <= now - self._swept_at < SWEEP_EVERY):
            self._swept_at = now
            for ended in [ended for ended, end in self._ends.items() if end <= now]:
                del self._ends[ended]
                self._count -= len(self._times.pop(ended))
        return not self._is_full(window_key)

    def _is_full(self, window_key: tuple[str, str]) -> bool:
        return self._count >= self._most_times or (
            len(self._times) >= self._most_keys and window_key not in self._times
        )


class Once(Windows):
    """The windows for one request that is judged for several submitters: it counts once for each rule and key."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._found: dict[tuple[str, str], bool] = {}

    def exceeds(self, rule: str, key: str, most: int, window: float, now: float) -> bool:
        if (rule, key) not in self._found:
            self._found[rule, key] = self._windows.exceeds(rule, key, most, window, now)
        return self._found[rule, key]
