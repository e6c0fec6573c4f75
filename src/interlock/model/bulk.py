"""Bulk requests: one action on every run that matches a filter, carried out in passes."""

from interlock.model.record import Columns, Record
from interlock.model.run_action import RunAction
from interlock.model.run_filter import RunFilter


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
