"""Actions on one run."""

from typing import TYPE_CHECKING, Annotated, ClassVar, Generic, TypeVar

import msgspec

from interlock import error as e
from interlock.fields.field import doc
from interlock.model.access import Permission
from interlock.model.bulk import ActedOn, RunAction
from interlock.wire.operation import Http, Key, Order
from interlock.wire.parameter import FilterText, Reason

A_co = TypeVar("A_co", covariant=True)


def _text(action: RunAction, more: str = "May be repeated.") -> str:
    return f"{action.capitalize()} a run. {action.meaning} {more}"


class RunChange(Order[A_co], Generic[A_co], frozen=True):
    run_id: str
    reason: Annotated[Reason, doc("Reason, kept with the run.")] = ""

    permission: ClassVar = Permission.CANCEL
    does: ClassVar[RunAction]

    @property
    def why(self) -> str:
        return self.reason or self.does.done


class CancelRun(RunChange[ActedOn], frozen=True):
    __doc__ = _text(RunAction.CANCEL)

    cascade: Annotated[
        bool, doc("`true`: also cancel the runs that it made, directly or not. None of them makes further runs.")
    ] = False
    compensate: Annotated[bool, doc("`true`: a workflow undoes its steps before it ends.")] = False

    does: ClassVar = RunAction.CANCEL
    http: ClassVar = Http("cancel", "POST /runs/{run_id}/cancel", body="CancelBody", body_required=False)


class HoldRun(RunChange[ActedOn], frozen=True):
    __doc__ = _text(RunAction.HOLD)

    does: ClassVar = RunAction.HOLD
    http: ClassVar = Http("hold", "POST /runs/{run_id}/hold", body="ReasonBody", body_required=False)


class ReleaseRun(RunChange[ActedOn], frozen=True):
    __doc__ = _text(RunAction.RELEASE)

    does: ClassVar = RunAction.RELEASE
    http: ClassVar = Http("release", "POST /runs/{run_id}/release", body="ReasonBody", body_required=False)


class RetryRun(RunChange[ActedOn], frozen=True):
    __doc__ = _text(RunAction.RETRY, "The answer is the new run.")

    from_step: Annotated[
        FilterText | None,
        doc("Step of a workflow: begin with it, and take over the steps before it with their results."),
    ] = msgspec.field(default=None, name="from")
    if TYPE_CHECKING:

        @property
        def key(self) -> str: ...
    else:
        key: str = ""  # makes it safe to repeat

    does: ClassVar = RunAction.RETRY
    http: ClassVar = Http(
        "retry",
        "POST /runs/{run_id}/retry",
        raises=(e.RunNotEnded, e.QueueFull, e.TenantLimit, e.UnknownJob),
        body="RetryRunBody",
        body_required=False,
        key=Key("Makes the request safe to repeat: the same key for the same run finds the same new run."),
        status=201,
    )

    @property
    def repeatable(self) -> bool:
        return bool(self.key)
