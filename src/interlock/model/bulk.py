"""Actions on a run, and bulk requests: one action on every run that matches a filter, carried out in passes."""

from enum import StrEnum
from typing import Annotated

import msgspec

from interlock.fields.field import doc
from interlock.model.record import Columns, Record
from interlock.model.run import Run, RunFilter
from interlock.model.state import State


class RunAction(StrEnum):
    CANCEL = "cancel"
    HOLD = "hold"
    RELEASE = "release"
    RETRY = "retry"

    @property
    def done(self) -> str:
        """The reason recorded if none is given."""
        return _WORDS[self][0]

    @property
    def meaning(self) -> str:
        return _WORDS[self][1]

    def acts_on(self, run: Run) -> bool:
        """Return whether the action changes a run that it reaches."""
        if self is RunAction.RETRY:
            return run.facets is None or (run.facets.retried_as is None and run.facets.collapsed_into is None)
        return run.stop is None if self is RunAction.CANCEL else run.is_held is (self is RunAction.RELEASE)

    @property
    def reach(self) -> str:
        """Which runs a bulk request acts on, after "runs that"."""
        return "ended without success, unless retried before" if self is RunAction.RETRY else "have not ended"


_WORDS = {
    RunAction.CANCEL: ("cancelled", "A running run is asked to stop; an ended run keeps its state."),
    RunAction.HOLD: ("held", "A held run does not start until it is released. A running run continues."),
    RunAction.RELEASE: ("released", "A released run continues where it was held."),
    RunAction.RETRY: (
        "retried",
        "An ended run runs again, as a new run with the same job, payload, tenant, lane, priority, session with its "
        "options, labels and time to its deadline. The facet `retry_of` of the new run names the old one; `retried_as` "
        "of the old one names it.",
    ),
}


class ActedOn(msgspec.Struct, frozen=True, kw_only=True):
    id: Annotated[str, doc("Id of the run; after a retry, of the new run.")]
    state: Annotated[State, doc("State of the run now. A run that was asked to stop keeps its own until it ends.")]


class BulkRequest(Record, frozen=True, kw_only=True):
    """An action on the runs that match `wanted` and existed before the request, with its progress."""

    kind = "bulk"

    action: RunAction
    wanted: RunFilter
    actor: str
    reason: str
    created_at: float
    ended_at: float | None = None  # time at which every run had been looked at; None while under way
    done: int = 0  # runs on which the action is complete
    asked: int = 0  # runs on a worker that were asked to stop
    left: int | None = 0  # runs not looked at yet; None if they are not counted
    before: int | None = None  # where the next page of a retry begins
    seq: int = 1  # raised with every update
    walked: str | None = None  # last run looked at
    behind: tuple[str, ...] = ()  # submitters of the run whose code has asked for a retry

    @property
    def columns(self) -> Columns:
        is_under_way = self.ended_at is None
        run = self.walked if is_under_way else None
        return Columns(self.seq, self.wanted.tenant or "", run=run, holds=is_under_way, state=self.action)

    @property
    def is_cascade(self) -> bool:
        """Whether it cancels a run together with the runs that it makes."""
        return self.action is RunAction.CANCEL and self.wanted.under is not None
