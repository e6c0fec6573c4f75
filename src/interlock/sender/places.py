"""Places for requests under way: limited in all and for each host, so that one slow host never takes all of them.
A few busy hosts cannot keep out a host that has no request under way."""

from collections import Counter

MOST = 64
MOST_PER_HOST = 16


class Places:
    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()

    def taken(self, host: str) -> int:
        return self._taken[host]

    def is_free(self, host: str) -> bool:
        taken, total = self._taken[host], self._taken.total()
        return taken < MOST_PER_HOST and (total < MOST or (taken == 0 and total < 2 * MOST))

    def take(self, host: str) -> None:
        self._taken[host] += 1

    def leave(self, host: str) -> None:
        self._taken[host] -= 1
        if not self._taken[host]:
            del self._taken[host]
