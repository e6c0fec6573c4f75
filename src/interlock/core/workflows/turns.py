"""Turns: ask the function of a workflow on a worker what follows, and carry out its orders.

A turn is an attempt of a run that stays `under_way`. It takes no slot of a lane, and has no effect but its orders, so
it may be lost, late or repeated. A workflow has one turn at a time, and needs one when a step has ended since the last.

A function that does not fit the record halts the workflow: nothing changes, and each worker that joins gets a try.
"""

from itertools import islice

import msgspec
from msgspec.structs import replace

from interlock.core.lanes.lane import SlotKind
from interlock.core.routing.dispatch import begin_attempt, needs_of, send
from interlock.core.routing.roster import DemandKey, Worker
from interlock.core.transition import Pass
from interlock.core.workflows import machine
from interlock.core.workflows.closing import close
from interlock.core.workflows.code import deliverable, record_of
from interlock.core.workflows.flow import Flow, Flows
from interlock.core.workflows.start import ask_once
from interlock.core.workflows.turn_orders import can_carry_out, carry_out
from interlock.core.workflows.turn_table import LONGEST_TURN, LostTurn, Turns, detach
from interlock.core.workflows.values import INPUT
from interlock.error import NotHalted
from interlock.fields.duration import span
from interlock.model.audit import AuditKind
from interlock.model.facets import Halted
from interlock.model.failure import Outcome
from interlock.model.run import Run
from interlock.model.state import State
from interlock.model.workflow_info import WorkflowAction
from interlock.model.workflow_record import MOST_RESULTS
from interlock.wire import turn as t
from interlock.wire.effect import ReadResults
from interlock.wire.message import Finished
from interlock.wire.workflow_request import ActOnWorkflow

MOST_CRASHES = 3
MOST_OUT = 64 * 1024 * 1024  # bytes of records on workers, above which no further ones are read or sent
MOST_READING = 4  # workflows that have waited longest for a worker and cannot use it yet: their results are read
NONDETERMINISTIC = "nondeterministic_workflow"
CRASHED, TOO_LONG, REFUSED = "turn_crashed", "turn_too_long", "turn_refused"
_DECODER = msgspec.json.Decoder(t.TurnEnd)


class Unserved(set[DemandKey]):
    """Demands for which no worker has had room in this pass: the next one hands out the room that appears meanwhile."""


def settle(p: Pass, leaving: list[Run]) -> None:
    """Let workflows go on: graphs by themselves, functions by turns."""
    flows, turns = p.state.of(Flows), p.state.of(Turns)
    machine.settle(p, leaving)
    while turns.over or flows.turning:
        over, turns.over = turns.over, []
        for run, report in over:
            given = turns.take_back(run.id)
            if given is not None and run.id in p.state.runs:
                _take(p, flows[run.id], report, given)
        turning, flows.turning = flows.turning, {}
        for run_id in turning:
            if (flow := flows.get(run_id)) is not None and run_id in p.state.runs and flow.run.closing is None:
                _follow(p, flow)
                flow.read.clear()
        machine.settle(p, [])


def hand_out(p: Pass) -> None:
    """Let workflows try that wait for a worker, and halted ones whenever a worker joins."""
    flows, turns, roster = p.state.of(Flows), p.state.of(Turns), p.state.roster
    joined, turns.joined = turns.joined, []
    for worker in (p.state.workers[name] for name in joined if name in p.state.workers and turns.avoided):
        for run_id, digests in turns.avoided.items():
            if (run := p.state.runs.get(run_id)) is not None and run.job_id in worker.jobs:
                digests.discard(worker.jobs[run.job_id])
                turns.preferred[run_id] = worker.id
                flows.touched[run_id] = None
    if not turns.waiting or p.state.draining:
        return
    roster.settle(p.rng)
    for key, runs in turns.waiting.items():
        demand = roster.demand_of((key[0], SlotKind.TURN, (), key[1]), key[2], p.rng)
        if roster.pick(demand, SlotKind.TURN, p.rng) is not None:
            room = sum(worker.free(SlotKind.TURN) for worker in p.state.workers.values())
            flows.touched.update(dict.fromkeys(islice(runs, room + MOST_READING)))


def _demand(p: Pass, flow: Flow) -> DemandKey:
    if flow.demand is None:
        run = flow.run
        flow.demand = run.job_id, needs_of(p.state.job_of(run), run.labels), run.tenant
    return flow.demand


def _follow(p: Pass, flow: Flow) -> None:
    """Dispatch a turn if the function has not seen all, and a worker can take it."""
    run, turns = flow.run, p.state.of(Turns)
    facet = run.workflow_facet
    seen, waits = facet.seen, facet.waits
    if run.id in turns.out or (seen is not None and len(flow.completed) <= seen):
        return
    demand, is_avoided = _demand(p, flow), bool(turns.avoided.get(run.id))
    is_full = turns.bytes_out >= MOST_OUT and not flow.read  # what was read would have to be read again
    if is_full or (demand in p.of(Unserved) and not is_avoided):
        turns.waiting.setdefault(demand, {})[run.id] = None
        return
    given = deliverable(flow)
    if seen is not None and len(given) <= seen:
        turns.stop_waiting(run.id)
        return
    worker = None if p.state.draining else _pick(p, flow)
    if worker is None:
        if not is_avoided:
            turns.waiting.setdefault(demand, {})[run.id] = None
            p.of(Unserved).add(demand)
        return
    payload = _payload(flow)
    names = [waits.get(name, name) for name in given] if waits else given
    unread = [name for name in names if flow.ended[name].is_stored and name not in flow.read]
    if unread or payload is None:
        ids = {flow.id_of(name) for name in names if flow.ended[name].is_stored}
        ids |= {run.id if flow.round_prefix == "" else flow.id_of(flow.round_mark)} if payload is None else set()
        ask_once(p, ReadResults(run.id, run.seq, tuple(sorted(ids))))
        return
    # Small results alone are never too large together.
    size = sum(len(flow.read.get(name) or flow.ended[name].result or b"") for name in names) if flow.read else 0
    if size > MOST_RESULTS:
        text = f"results: {size:,} bytes in one round; at most {MOST_RESULTS:,} are allowed; use continue_as_new"
        close(p, flow, State.FAILED, "too many results", error=text)
        return
    turns.stop_waiting(run.id)
    begin_attempt(p, run, worker, SlotKind.TURN, flow.order)
    record = msgspec.json.encode(record_of(flow, given, payload))
    send(p, run, worker, payload, record=record)
    turns.hand_out(run.id, len(given), len(record))


def _payload(flow: Flow) -> bytes | None:
    """Return the arguments of the round if they are in memory."""
    if flow.round_prefix:
        return flow.read.get(flow.round_mark)
    return flow.read.get(INPUT) or flow.run.payload


def _pick(p: Pass, flow: Flow) -> Worker | None:
    run, turns, roster, key = flow.run, p.state.of(Turns), p.state.roster, _demand(p, flow)
    roster.settle(p.rng)
    preferred, avoided = turns.preferred.pop(run.id, ""), turns.avoided.get(run.id)
    if not avoided:
        return roster.pick(
            roster.demand_of((key[0], SlotKind.TURN, (), key[1]), key[2], p.rng), SlotKind.TURN, p.rng, preferred
        )
    fit = [
        worker
        for worker in p.state.workers.values()
        if worker.takes_work and roster.misfit(worker, key) is None and worker.jobs[run.job_id] not in avoided
    ]
    free = [worker for worker in fit if worker.obstacle(SlotKind.TURN, roster.pools.get(worker.pool)) is None]
    if not free and fit:
        turns.waiting.setdefault(key, {})[run.id] = None
    return min(free, key=lambda worker: (worker.id != preferred, worker.score), default=None)


def _take(p: Pass, flow: Flow, report: Finished | LostTurn, given: int) -> None:
    """Take the end of a turn: its orders, or that it needs another."""
    run, turns, flows = flow.run, p.state.of(Turns), p.state.of(Flows)
    worker, run.worker_id = run.worker_id, None
    code = "" if worker not in p.state.workers else p.state.workers[worker].jobs.get(run.job_id, "")
    p.touch(run)
    if flow.run.closing is not None:
        return
    flows.turning[run.id] = None
    if isinstance(report, LostTurn):
        crashes = turns.crashes[run.id] = turns.crashes.get(run.id, 0) + report.is_crash
        if crashes >= MOST_CRASHES and report.is_crash:
            _halt_everywhere(p, run, CRASHED, f"its turn crashed {crashes} times: {report.reason}")
        return
    try:
        orders = _DECODER.decode(report.result or b"").orders
        if report.outcome != Outcome.SUCCEEDED:
            raise msgspec.ValidationError(report.error or report.outcome)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        _halt_everywhere(p, run, REFUSED, str(report.error or error))
        return
    if orders and isinstance(orders[0], t.Halt):
        turns.avoided.setdefault(run.id, set()).add(code)
        _halt(p, run, NONDETERMINISTIC, orders[0].text, orders[0].step)
        return
    if not can_carry_out(p, flow, orders):
        del flows.turning[run.id]  # it gets another turn when they can be
        return
    turns.crashes.pop(run.id, None)
    p.set_facet(run, workflow=replace(run.workflow_facet, seen=given, halt=None))
    for order in orders:
        if flow.run.closing is not None or run.id not in p.state.runs:
            return
        carry_out(p, flow, order)


def too_long(p: Pass, name: str, at: float) -> None:
    """Halt a workflow whose turn takes too long."""
    fence, _, run_id = name.partition(" ")
    run = p.state.runs.get(run_id)
    if run is not None and run.fence == int(fence) and run_id in p.state.of(Turns).out:
        detach(p, run)
        _halt_everywhere(p, run, TOO_LONG, f"its turn took more than {span(LONGEST_TURN)}")


def _halt_everywhere(p: Pass, run: Run, code: str, text: str) -> None:
    """Halt a workflow until a worker joins."""
    known = {worker.jobs[run.job_id] for worker in p.state.workers.values() if run.job_id in worker.jobs}
    p.state.of(Turns).avoided.setdefault(run.id, set()).update(known)
    _halt(p, run, code, text)


def _halt(p: Pass, run: Run, code: str, text: str, step: str = "") -> None:
    halt = run.workflow_facet.halt
    if halt is None or (halt.code, halt.text) != (code, text):
        halted = Halted(code, text, p.now, step)
        p.set_facet(run, workflow=replace(run.workflow_facet, halt=halted))


def act(p: Pass, origin: str, command: ActOnWorkflow) -> None:
    """Resume or abandon a halted workflow."""
    run, actor = p.asked(command), command.actor or origin
    halt = run.workflow_facet.halt
    if halt is None or run.closing is not None or run.ended_at is not None:
        raise NotHalted(run.id, run.state)
    why = f": {command.reason}" if command.reason else ""
    if command.action is WorkflowAction.RESUME:
        _resume(p, run)
        p.note(run, f"resumed by {actor}{why}")
    else:
        text = f"{halt.code}: {halt.text}"
        close(p, p.state.of(Flows)[run.id], State.CANCELLED, f"abandoned{why}", actor, error=text)
        p.audit(AuditKind.ABANDONED, actor, run.tenant, run.id, job=run.job_id, reason=command.reason, halt=halt.code)
    p.answer(origin, command.request, run)


def _resume(p: Pass, run: Run) -> None:
    """Give a halted workflow another turn, on any worker."""
    turns = p.state.of(Turns)
    turns.avoided.pop(run.id, None)
    turns.crashes.pop(run.id, None)
    p.state.of(Flows).touched[run.id] = None
