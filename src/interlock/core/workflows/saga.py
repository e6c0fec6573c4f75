"""Sagas: undo what a workflow has done, the last completed step first, one at a time.

The success of a step is the push: its facet has the compensation, and its place in the order of completion. The stack
is stored nowhere: it is the steps with such a place and without a run `comp-<step>`.
"""

import hashlib

import msgspec
from msgspec.structs import replace

from interlock.core.effects import PendingEffects, ask
from interlock.core.letters.letter import write_letter
from interlock.core.output import Scans
from interlock.core.transition import Pass
from interlock.core.workflows.flow import SCAN_LOOK, UNDO, Flow, Flows
from interlock.core.workflows.steps import StepOptions, make_ended, run_job
from interlock.core.workflows.values import NoValue, UndoScope
from interlock.error import Forbidden, InterlockError
from interlock.fields.payload import EMPTY
from interlock.fields.secret import from_json
from interlock.model.facets import StepFacet
from interlock.model.job import Job, Priority
from interlock.model.labels import SAGA_LABELS
from interlock.model.letter import LetterCode
from interlock.model.run import Run
from interlock.model.state import State
from interlock.model.workflow import Undo
from interlock.wire.effect import ReadSaga


def record(p: Pass, run: Run, step: StepFacet) -> None:
    """Put a step that has succeeded on the saga of its workflow; count a compensation that has not."""
    if run.state is not State.SUCCEEDED:
        if run.is_compensation:
            p.count("saga_compensations_failed_total")
    elif step.undo is not None:
        # Never above the position in the store, because the end of the step has one: so it grows over restarts too.
        p.state.numbers.events += 1
        p.set_facet(run, step=replace(step, completed=p.state.numbers.events))
        p.count("saga_recorded_total")


def roll_back(p: Pass, flow: Flow) -> bool:
    """Undo the next step of a workflow that has stopped; return whether nothing is left to undo."""
    if flow.saga == [] and flow.run.closing is not None and any(name.startswith(UNDO) for name in flow.ended):
        p.rolled_back.append(max(0.0, p.now - flow.run.closing.at))
    if flow.step is not None or not flow.may_undo or flow.saga == []:
        return True
    effect = ReadSaga(flow.run.id, flow.run.seq, flow.placed, flow.saga[-1] if flow.saga else "")
    if effect not in p.state.of(PendingEffects).pending:
        ask(p, effect)
    return False


def saga_read(p: Pass, run: Run, answer: tuple[list[str], Run | None]) -> None:
    flows, (left, step) = p.state.of(Flows), answer
    flow = flows[run.id]
    if flow.saga is None:
        flow.saga = left
        if left:
            p.count("saga_rollbacks_total")
    if step is None or flow.saga[-1:] != [step.id]:
        flows.touched[run.id] = None
    elif step.is_unscanned and p.state.of(Scans).are_made:
        p.state.set_timer(p.now + SCAN_LOOK, run)  # nobody may have its result yet
    else:
        flow.saga.pop()
        _undo(p, flow, step)


def _undo(p: Pass, flow: Flow, step: Run) -> None:
    facet = step.facets and step.facets.step
    assert isinstance(facet, StepFacet)
    undo = facet.undo
    assert undo is not None
    name = flow.name_of(step.id)
    p.count("saga_compensations_dispatched_total")
    try:
        job = p.state.job(undo.job)
        if added := sorted(set(job.capabilities) - set(undo.capabilities)):
            raise Forbidden(f"job {undo.job!r} has capabilities that step {name!r} lacks: {', '.join(added)}")
        given = from_json(msgspec.json.decode(step.payload or EMPTY))
        arguments = UndoScope(given, step).arguments(undo.arguments)
        run_job(p, flow, UNDO + name, job, arguments, _options(flow, name, job, undo))
    except (NoValue, InterlockError) as error:
        run = make_ended(p, flow, UNDO + name, Job(id=undo.job), State.FAILED, "could not start", str(error))
        write_letter(p, run, LetterCode.SAGA_UNMARSHAL_FAILED)
        p.count("saga_unreadable_total")


def _options(flow: Flow, name: str, job: Job, undo: Undo) -> StepOptions:
    parts = (flow.run.job_id, flow.run.id, job.policy_topic, ",".join(job.capabilities), name)
    return StepOptions(
        timeout=undo.timeout,
        key=hashlib.sha256("|".join(parts).encode()).hexdigest(),
        priority=Priority.CRITICAL,
        labels={**(undo.labels or {}), **dict(zip(SAGA_LABELS, ("true", "true", flow.run.job_id), strict=True))},
    )
