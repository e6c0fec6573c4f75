"""A judge that is careless: the real one with one function exchanged for as long as a pass takes."""

from collections.abc import Callable
from contextlib import ExitStack
from math import inf
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from interlock.core import step
from interlock.core.decisions import Decisions
from interlock.core.policy import approvals, judge
from interlock.core.policy.judge_state import Judging
from interlock.core.transition import Pass
from interlock.model.facets import Judged
from interlock.model.policy.verdict import PolicyRequest
from interlock.model.run import Run
from interlock.model.state import State
from interlock.wire.approval_request import ApproveRun, RejectRun
from soak.simulation.scenario import Sabotage

_ask, _decide = approvals.ask_approval, step.step


def careless_step(sabotage: Sabotage) -> Callable[..., Decisions]:
    def careless(*arguments: Any) -> Decisions:
        with ExitStack() as stack:
            if sabotage.judge_keeps_verdicts:
                stack.enter_context(patch.object(judge, "_note_digest", _note_only))
            elif sabotage.judge_reuses_approvals:
                stack.enter_context(patch.object(judge, "ask_approval", _ask_once))
            elif sabotage.judge_fails_open:
                stack.enter_context(patch.object(judge, "_unanswered", lambda *_: True))
            elif sabotage.judge_lets_own_approve:
                stack.enter_context(patch.dict(step.MACHINE.handlers, {ApproveRun: _resolve_own}))
            else:
                stack.enter_context(
                    patch.dict(step.MACHINE.handlers, dict.fromkeys((ApproveRun, RejectRun), _resolve_late))
                )
                waits = step.MACHINE.waits
                never = replace(waits[State.APPROVAL_REQUIRED], ends=lambda p, run: None)
                stack.enter_context(patch.dict(waits, {State.APPROVAL_REQUIRED: never}))
            return _decide(*arguments)

    return careless


def _note_only(p: Pass, digest: str, actor: str) -> None:
    p.state.of(Judging).digest = digest
    p.keep_memo(judge.MEMO, digest.encode() or None)


def _ask_once(p: Pass, run: Run, request: PolicyRequest, judged: Judged) -> bool:
    given = None if run.judged is None else run.judged.approval
    return _ask(p, run, request, replace(judged, approval=given if given is not None and given.approved else None))


def _resolve_own(p: Pass, origin: str, command: ApproveRun | RejectRun) -> None:
    run = p.find(command.run_id)
    owner = "" if run is None else run.created_by
    try:
        if run is not None:
            run.created_by = ""
        approvals.resolve(p, origin, command)
    finally:
        if run is not None:
            run.created_by = owner


def _resolve_late(p: Pass, origin: str, command: ApproveRun | RejectRun) -> None:
    run = p.find(command.run_id)
    if run is not None and run.state is State.APPROVAL_REQUIRED:
        run.due_at = inf
    approvals.resolve(p, origin, command)
