"""The deliveries of the store in memory."""

from collections.abc import Iterator

from msgspec.structs import asdict, replace

from interlock.core.decisions import Batch
from interlock.model.delivery import Delivery, DeliveryFilter
from interlock.ports.store import DeliveryRows


class Deliveries:
    def __init__(self) -> None:
        self._rows: dict[str, tuple[int, Delivery]] = {}  # id → number and delivery, in order of creation
        self._last = 0

    def apply(self, batch: Batch) -> None:
        for one in batch.deliveries:
            known = self.get(one.id)
            if known is None:
                self._last += 1
                self._rows[one.id] = self._last, one
            elif one.round > known.round:
                self._rows[one.id] = self._rows[one.id][0], one
        for sent in batch.sent:
            known = self.get(sent.id)
            if known is not None and known.ended_at is None and known.round == sent.round and known.tries <= sent.tries:
                self._rows[sent.id] = self._rows[sent.id][0], replace(known, **asdict(sent))

    def get(self, delivery_id: str) -> Delivery | None:
        return self._rows[delivery_id][1] if delivery_id in self._rows else None

    def page(self, wanted: DeliveryFilter, before: int | None, limit: int) -> DeliveryRows:
        given = {name: value for name, value in asdict(wanted).items() if value is not None}
        prefix = given.pop("id_prefix", "")
        found = [
            (number, one)
            for number, one in reversed(self._rows.values())
            if (before is None or number < before)
            and one.id.startswith(prefix)
            and all(getattr(one, name) == given[name] for name in given)
        ]
        shown = found[:limit]
        return DeliveryRows([one for _, one in shown], shown[-1][0] if len(found) > limit else None)

    def owed(self) -> Iterator[Delivery]:
        """Yield the pending deliveries that no earlier one of their order keeps back."""
        seen = set[str]()
        for _, one in self._rows.values():
            if one.ended_at is None and one.order not in seen:
                yield one
                if one.order is not None:
                    seen.add(one.order)

    def pending(self) -> Iterator[Delivery]:
        return (one for _, one in self._rows.values() if one.ended_at is None)

    def runs(self) -> set[str]:
        """Return the runs with a pending delivery."""
        return {one.run_id for one in self.pending()}

    def forget(self, runs: set[str]) -> None:
        self._rows = {id: row for id, row in self._rows.items() if row[1].run_id not in runs}
