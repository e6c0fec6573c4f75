"""The policy, as a part of the machine."""

from interlock.core.facts import needs_run
from interlock.core.part import Part, Wait, always, leaves
from interlock.core.policy import approvals, judge, questions
from interlock.core.policy.judge_state import Judging, is_judged
from interlock.model.state import TERMINAL, State
from interlock.wire.approval_request import ApproveRun, RejectRun
from interlock.wire.command import PolicyMoved
from interlock.wire.effect import CheckPolicy, ReadPayload

QUESTIONS = Part(name="questions", stages=(questions.ask_for_workflow,))
POLICY = Part(
    name="policy",
    slices=(Judging,),
    handlers={PolicyMoved: judge.policy_moved, ApproveRun: approvals.resolve, RejectRun: approvals.resolve},
    needs={ApproveRun: needs_run, RejectRun: needs_run},
    appliers={ReadPayload: judge.payload_read, CheckPolicy: judge.policy_answered},
    stages=(judge.judge,),
    on=(
        (leaves(State.APPROVAL_REQUIRED), approvals.stop_waiting),
        (leaves(State.PENDING, to=TERMINAL), judge.stop_waiting),
    ),
    waits={
        State.PENDING: Wait(judge.time_passed, judge.has_pause, lambda run, job: judge.LONGEST_PAUSE),
        State.APPROVAL_REQUIRED: Wait(approvals.expire, always, approvals.longest_wait),
    },
    loads=(judge.load,),
    places=((judge.UNSURE | {State.PENDING, State.APPROVAL_REQUIRED}, judge.place),),
    explains=(judge.explain,),
    fires=(judge.resume,),
    concerns_all=(is_judged,),
    has_more=(lambda state: bool(state.of(Judging).to_judge),),
)
