"""The filter of runs, shared by lists and bulk requests."""

import msgspec

from interlock.model.letter import LetterFilter
from interlock.model.run import Run
from interlock.model.state import TERMINAL, State

UNSUCCESSFUL = TERMINAL - {State.SUCCEEDED}


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """A choice of runs: those that match every field given."""

    states: frozenset[State] = frozenset()
    job_id: str | None = None
    tenant: str | None = None
    session: str | None = None
    lane: str | None = None
    since: float | None = None  # created at this time or later
    until: float | None = None  # created before this time
    live: bool | None = None  # True: not ended; False: ended
    id_prefix: str | None = None  # the beginning of the id
    created_by: str | None = None
    letters: LetterFilter | None = None  # ended runs with such a dead letter, and no others
    parent: str | None = None  # run that made it
    root: str | None = None  # run at the top of its tree
    under: str | None = None  # this run, and all runs that it has made, directly or not; in memory only

    @property
    def only_live(self) -> bool:
        """Whether no ended run can match."""
        return self.live is True or (bool(self.states) and not self.states & TERMINAL)

    @property
    def only_unsuccessful(self) -> bool:
        """Whether only runs that ended without success can match."""
        return bool(self.states) and self.states <= UNSUCCESSFUL

    def fits(self, run: Run) -> bool:
        return (
            self.job_id in (None, run.job_id)
            and run.id.startswith(self.id_prefix or "")
            and (not self.states or run.state in self.states)
            and self.tenant in (None, run.tenant)
            and self.session in (None, run.session)
            and self.lane in (None, run.lane)
            and (self.since is None or run.created_at >= self.since)
            and (self.until is None or run.created_at < self.until)
            and self.created_by in (None, run.created_by)
            and self.live in (None, run.ended_at is None)
            and self.parent in (None, run.parent)
            and self.root in (None, run.root)
            and (self.under is None or run.is_under(self.under))
        )
