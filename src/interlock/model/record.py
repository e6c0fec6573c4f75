"""Records: resources that a store keeps by kind and id. A new kind changes neither the port nor a store."""

from typing import ClassVar, NamedTuple, Self, TypeVar

import msgspec


class Columns(NamedTuple):
    """The fields by which a store finds records."""

    seq: int = 0  # a record with a higher number, or with 0, replaces the stored one
    tenant: str = ""
    job: str = ""
    run: str | None = None  # the run that takes the record along when it is pruned
    holds: bool = False  # whether this run must not be pruned
    state: str = ""
    at: float = 0.0
    due_at: float | None = None  # time of the next thing to do; None if nothing is left to do
    queue: str = ""  # name under which due records are found
    order: str | None = None  # among records with the same order and a `due_at`, only the first is due


class Record(msgspec.Struct, frozen=True):
    """A stored resource. The store keeps its columns, and the rest as one value."""

    kind: ClassVar[str]

    id: str

    @property
    def columns(self) -> Columns:
        return Columns()

    def encode(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def read(cls, id: str, value: bytes) -> Self | None:
        """Return a stored record; None for one that cannot be read and is left out."""
        return msgspec.json.decode(value, type=cls)


R = TypeVar("R", bound=Record)


class RecordFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The wanted records: those that match every given field."""

    tenant: str | None = None
    job: str | None = None
    run: str | None = None
    state: str | None = None
    since: float | None = None
    until: float | None = None
    is_due: bool | None = None  # whether there is a next thing to do
    id_prefix: str | None = None  # of at least 8 characters

    def fits(self, record: Record) -> bool:
        found = record.columns
        return (
            self.tenant in (None, found.tenant)
            and self.job in (None, found.job)
            and self.run in (None, found.run)
            and self.state in (None, found.state)
            and (self.since is None or found.at >= self.since)
            and (self.until is None or found.at < self.until)
            and self.is_due in (None, found.due_at is not None)
            and record.id.startswith(self.id_prefix or "")
        )


class Memo(Record, frozen=True):
    """A small value of the core that belongs to no run, by its name."""

    kind = "memo"

    value: bytes

    def encode(self) -> bytes:
        return self.value

    @classmethod
    def read(cls, id: str, value: bytes) -> Self:
        return cls(id, value)
