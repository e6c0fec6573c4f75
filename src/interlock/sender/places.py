"""Places for requests under way: limited in all and for each host, so that one slow host never takes all of them."""

from collections import Counter

MOST = 64
MOST_PER_HOST = 16


class Places:
    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()

    def taken(self, host: str) -> int:
        return self._taken[host]

    def is_free(self, host: str) -> bool:
        return self._taken[host] < MOST_PER_HOST and self._taken.total() < MOST

    def take(self, host: str) -> None:
        self._taken[host] += 1

    def leave(self, host: str) -> None:
        self._taken[host] -= 1
        if not self._taken[host]:
            del self._taken[host]
