"""The dead letters of the store in memory."""

from collections import Counter

from msgspec.structs import replace

from interlock.core.decisions import Batch
from interlock.model.letter import DeadLetter, LetterFilter
from interlock.ports.store import MOST_PRUNED, LetterRows


class Letters:
    def __init__(self) -> None:
        self.rows: dict[str, tuple[int, DeadLetter]] = {}  # id → number and letter, in order
        self._last = 0

    def apply(self, batch: Batch) -> None:
        for one in batch.dead_letters:
            if one.id not in self.rows:
                self._last += 1
                self.rows[one.id] = self._last, one
        for new, old in batch.replayed:
            if old in self.rows:
                number, letter = self.rows[old]
                self.rows[old] = number, replace(letter, replayed_as=new)
        for letter_id in batch.dropped_letters:
            self.rows.pop(letter_id, None)

    def get(self, letter_id: str) -> DeadLetter | None:
        return self.rows[letter_id][1] if letter_id in self.rows else None

    def page(self, wanted: LetterFilter, before: int | None, limit: int) -> LetterRows:
        rows = reversed(self.rows.values())
        found = [row for row in rows if (before is None or row[0] < before) and wanted.fits(row[1])]
        shown = found[:limit]
        return LetterRows([replace(one, raw=None) for _, one in shown], shown[-1][0] if len(found) > limit else None)

    def counts(self, wanted: LetterFilter) -> dict[str, int]:
        return dict(Counter(str(one.code) for _, one in self.rows.values() if wanted.fits(one)))

    def prune(self, before: float, most: int, unreached: int) -> int:
        surplus = len(self.rows) - most
        oldest = list(self.rows.items())[:MOST_PRUNED]
        old = [
            letter_id
            for place, (letter_id, (number, one)) in enumerate(oldest)
            if (one.at < before or place < surplus) and number >= unreached
        ]
        for letter_id in old:
            del self.rows[letter_id]
        return len(old)
