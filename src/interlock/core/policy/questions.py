"""Questions of workflows: a step that is an approval asks a person, as a rule of the policy does."""

from datetime import UTC, datetime

import msgspec
from msgspec.structs import replace

from interlock.core.part import for_special_runs
from interlock.core.policy.approvals import LONGEST_REASON, ask
from interlock.core.policy.judge import request_of
from interlock.core.transition import Pass
from interlock.fields.payload import EMPTY
from interlock.model.approval import Approved
from interlock.model.failure import Outcome
from interlock.model.run import Run
from interlock.model.state import State
from interlock.model.workflow import APPROVAL
from interlock.policy.policy import request_hash


@for_special_runs
def ask_for_workflow(p: Pass, run: Run) -> bool:
    """Ask about a workflow whose step is an approval, and end the step once that is given; a stage of the entry. It is
    the workflow that asks, so no policy judges the step."""
    if run.job_id != APPROVAL or (judged := run.judged) is None or (approval := judged.approval) is None:
        return False
    if approval.approved and approval.at is not None:
        value = Approved(by=approval.by, at=datetime.fromtimestamp(approval.at, UTC), reason=approval.reason)
        run.result, run.outcome, run.started_at = msgspec.json.encode(value), Outcome.SUCCEEDED, p.now
        p.move(run, State.UNDER_WAY, f"approved by {approval.by}"[:LONGEST_REASON], approval.by)
        p.move(run, State.SUCCEEDED, f"approved by {approval.by}"[:LONGEST_REASON], approval.by)
    else:
        request = request_of(p.state.job_of(run), run, run.payload or EMPTY, secrets=False)
        found = replace(judged, approval=replace(approval, request=request_hash(request)))
        ask(p, run, found, f"asks: {judged.reason}")
    return True
