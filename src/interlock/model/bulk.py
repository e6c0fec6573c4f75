"""Bulk requests: one action on every run that matches a filter, carried out in passes."""

import msgspec

from interlock.model.run_action import RunAction
from interlock.model.run_filter import RunFilter


class BulkRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An action on the runs that match `wanted` and existed before the request, with its progress."""

    id: str
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
    behind: tuple[str, ...] = ()  # submitters of the run whose code has asked for a retry

    @property
    def is_cascade(self) -> bool:
        """Whether it cancels a run together with the runs that it makes."""
        return self.action is RunAction.CANCEL and self.wanted.under is not None
