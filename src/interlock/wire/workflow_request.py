"""Operations on workflow runs."""

from typing import TYPE_CHECKING, Annotated, ClassVar

from interlock.error import BadCursor, NotHalted
from interlock.fields.field import doc
from interlock.model.access import Permission
from interlock.model.bulk import ActedOn
from interlock.model.workflow_info import WorkflowAction, WorkflowPage, WorkflowStatus
from interlock.wire.operation import Http, Order, Question
from interlock.wire.parameter import FilterText, OneOf, PageSize, Reason, cursor_form


class AskWorkflows(Question[WorkflowPage], frozen=True):
    """List workflow runs. Workflow runs under way, newest first, and what each waits for. A workflow that is a step of
    another is listed if it is halted, or with `steps`."""

    job: Annotated[FilterText | None, doc("Only runs of this workflow.")] = None
    tenant: Annotated[FilterText | None, doc("Only runs of this tenant.")] = None
    status: Annotated[OneOf[WorkflowStatus] | None, doc("Only runs with this status.")] = None
    steps: Annotated[bool, doc("Whether to list workflows that are steps of others.")] = False
    limit: PageSize = 100
    if TYPE_CHECKING:  # so that no signature of a client has it

        @property
        def cursor(self) -> str | None: ...
    else:
        cursor: Annotated[str | None, cursor_form("w.{1,1200}")] = None

    http: ClassVar = Http("workflows", "GET /workflows")

    @property
    def before(self) -> str | None:
        """Id of the run after which the page begins."""
        if self.cursor is None:
            return None
        if len(self.cursor) < 2 or not self.cursor.startswith("w"):
            raise BadCursor(self.cursor)
        return self.cursor[1:]


class ActOnWorkflow(Order[ActedOn], frozen=True):
    run_id: str
    action: WorkflowAction
    reason: Annotated[Reason, doc("Reason, kept with the run.")] = ""

    permission: ClassVar = Permission.CANCEL
    http: ClassVar = Http(
        "{action}_run",
        "POST /runs/{run_id}/{action}",
        raises=(NotHalted,),
        actions={
            WorkflowAction.RESUME: "Resume a halted workflow. Its function gets another turn, on any worker that has "
            "it. A run whose code still does not fit halts again.",
            WorkflowAction.ABANDON: "Abandon a halted workflow. It ends as `cancelled` once its live steps have "
            "stopped. No step starts and nothing is undone: to undo its steps, cancel it with `compensate`. The audit "
            "has an entry.",
        },
        body="ReasonBody",
        body_required=False,
    )
