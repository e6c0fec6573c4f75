"""Errors of the store and its lease."""

from collections.abc import Sequence

from interlock.error.base import Conflict, InterlockError, Unavailable, shown


class StoreUnavailable(Unavailable, code="store_unavailable"):
    """The disk refuses writes, or cannot be read. The request changed nothing."""

    def __init__(self, why: str, asked: bool = False) -> None:
        """`asked`: the caller only reads, so the message says nothing about changes."""
        super().__init__(
            f"store: cannot be read now ({why}); try again"
            if asked
            else f"store: not working now ({why}); nothing was changed, try again"
        )
        self.why = why


class OutcomeUnknown(Unavailable, code="outcome_unknown"):
    """The store did not confirm a write: the change may or may not have happened. Repeat a submit with the same
    `Idempotency-Key`."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"store: did not confirm a write ({why}), so the change may have been stored; "
            "with an idempotency_key it is safe to repeat, otherwise look before you repeat it"
        )
        self.why = why


class DatabaseGone(StoreUnavailable, code="database_gone", status=500):
    """The database was deleted, moved or replaced under the scheduler. A submit may or may not have been stored."""

    def __init__(self, path: str) -> None:
        InterlockError.__init__(
            self,
            f"database: {path} was deleted, moved or replaced under the scheduler, so nothing is acknowledged; "
            "put the same file back, or stop the scheduler, restore a backup, and start it again",
        )


class DatabaseDamaged(StoreUnavailable, code="database_damaged", status=500):
    """The database is damaged. `interlock doctor --repair-copy` saves what can be read."""

    def __init__(self, path: str, where: str) -> None:
        InterlockError.__init__(
            self,
            f"database: {path} is damaged ({where}); stop the scheduler, then restore a backup, or save what can "
            f"be read with: interlock doctor --db {path} --repair-copy NEWFILE",
        )


class DatabaseBehind(InterlockError, code="database_behind"):
    """The database holds less than was stored in it, or was removed."""

    def __init__(self, path: str, found: int | None, noted: int) -> None:
        """`found` is None if only the log is there."""
        super().__init__(
            f"database: {path} was removed, but its log {path}-wal is there; put the file back, restore a backup with "
            f"'interlock restore', or accept the loss by removing the log"
            if found is None
            else f"database: {path} ends at position {found}, but {noted} was stored: {path}-wal was cut or removed, "
            "or an older copy was put here; put the missing file back, restore a backup with 'interlock restore', or "
            f"accept the loss by removing {path}.lock"
        )


class NotPrivate(InterlockError, code="not_private"):
    """Another user made the file, or could have changed it."""

    def __init__(self, path: str, why: str, fix: str) -> None:
        super().__init__(f"database: {path} is refused because {why}; {fix}")


class StoreInUse(InterlockError, code="store_in_use"):
    """Another scheduler uses the database."""

    def __init__(self, path: str, holder: str) -> None:
        super().__init__(f"database: {path} is in use by another scheduler ({holder}); stop it or choose another file")


class NotADatabase(InterlockError, code="not_a_database"):
    """The file is not an Interlock database."""

    def __init__(self, path: str, why: str, fix: str = "choose another file") -> None:
        super().__init__(f"database: {path} is not an Interlock database ({why}); {fix}")


class DatabaseTooNew(InterlockError, code="database_too_new"):
    """A newer Interlock made the database."""

    def __init__(self, path: str, found: int, known: int) -> None:
        super().__init__(
            f"database: {path} has schema version {found}, this Interlock knows up to {known}; upgrade Interlock"
        )


class CannotOpenDatabase(InterlockError, code="cannot_open_database"):
    """The database cannot be opened."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"database: {path} cannot be opened ({why})")


class DatabaseMoved(InterlockError, code="database_moved"):
    """The file was moved to a server; only reading it is allowed."""

    def __init__(self, path: str, to: str) -> None:
        super().__init__(
            f"database: {path} was moved to {to}; use --db {to}, or repeat 'interlock migrate' if it was interrupted"
        )


class MoveUnfinished(InterlockError, code="move_unfinished"):
    """A move to a server failed. Repeat it: it starts again, or finds that it was complete."""

    def __init__(self, path: str, to: str, why: str) -> None:
        super().__init__(
            f"database: the move of {path} to {to} did not finish ({why}); mend this, then repeat the command"
        )


class LeaseLost(InterlockError, code="lease_lost"):
    """Another scheduler holds the lease."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"lease {name!r}: {why}")


class NoStandby(Conflict, code="no_standby"):
    """No other scheduler stands by, or not the one of the node that is to lead."""

    def __init__(self, node: str = "", standing: Sequence[str] = ()) -> None:
        if standing:
            super().__init__(f"node: no scheduler stands by at {shown(node)}; give one of: {', '.join(standing)}")
        else:
            super().__init__("cluster: no other scheduler stands by; start a second node first, with interlock up")


class StaleEpoch(InterlockError, code="stale_epoch"):
    """A write carried an older epoch than the store knows; its writer no longer owns the lease."""

    def __init__(self, name: str, epoch: int, current: int) -> None:
        super().__init__(f"lease {name!r}: epoch {epoch} is over, the current one is {current}")
        self.current = current
