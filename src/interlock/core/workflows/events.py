"""Events: each is kept until a step of its workflow reads it, once and in order.

The n-th event of a name and the n-th wait for it are one run, `<workflow run>@event.<name>.<n>`: whichever comes first
makes it. The facet `workflow` says which run a step of a graph waits for.
"""

import hashlib
from collections.abc import Iterator

from msgspec.structs import replace

from interlock.core.decisions import Failed
from interlock.core.effects import PendingEffects, ask
from interlock.core.entry.admission import create_run, lane_of
from interlock.core.entry.lineage import asker, maker
from interlock.core.entry.lineage import place as put_under
from interlock.core.facts import Needs
from interlock.core.state import SchedulerState
from interlock.core.tenants.limits import check_tenants
from interlock.core.transition import Pass
from interlock.core.workflows.code import complete_wait, is_code
from interlock.core.workflows.flow import BUILT_IN, EVENT_RUN, Flow, Flows
from interlock.core.workflows.steps import NO_OPTIONS, StepOptions, new_step
from interlock.error import (
    BadUse,
    BadValue,
    Draining,
    EventRefused,
    IdempotencyConflict,
    InterlockError,
    RunPruned,
    UnknownRun,
    rebuild,
)
from interlock.fields import payload
from interlock.fields.field_types import FieldPath
from interlock.model.bulk import ActedOn
from interlock.model.failure import Outcome
from interlock.model.lane import MAIN
from interlock.model.run import CALL_KEY, Run
from interlock.model.state import State
from interlock.model.workflow import EVENT, SEND, STEP_WORD
from interlock.wire.effect import ReadRecord
from interlock.wire.event_request import SendEvent
from interlock.wire.new_run import NewRun
from interlock.wire.request import ValueAnswer

MOST_UNREAD = 1000


class NotKnown(Exception):
    """The record of the workflow that an event is for is being read."""


def wait_for_event(p: Pass, flow: Flow, step: str, event: str, options: StepOptions = NO_OPTIONS) -> None:
    """Let a step wait for the next event of a name."""
    facet = flow.run.workflow_facet
    prefix = f"{EVENT_RUN}{event}."
    before = facet.read_before.get(event, 0) + sum(other.startswith(prefix) for other in facet.waits.values())
    name, places = f"{prefix}{before + 1}", facet.places
    if flow.is_code:
        flow.asked[step] = len(flow.asked)
        places = {**places, step: (flow.asked[step], None)}
    p.set_facet(flow.run, workflow=replace(facet, waits={**facet.waits, step: name}, places=places))
    if name in flow.ended or name in flow.live:
        p.state.of(Flows).touched[flow.run.id] = None  # it has come before
        if flow.is_code:  # after all that have completed, and so before all that will
            complete_wait(p, flow, step, max(flow.completed.values(), default=0))
    else:
        new_step(p, flow, name, BUILT_IN[EVENT], payload.EMPTY, State.UNDER_WAY, f"waits for event {event}", options)


def send_event(p: Pass, flow: Flow, step: str, to: str, event: str, value: bytes) -> None:
    """Send an event to another workflow of the tenant; raise `InterlockError`, or `NotKnown`."""
    target = p.state.runs.get(to)
    if target is None or target.tenant != flow.run.tenant:
        raise EventRefused(f"send.to: {to!r} is not a workflow under way of tenant {flow.run.tenant!r}")
    try:
        deliver(p, target, event, value, f"run {flow.run.id}")
    except NotKnown:
        p.state.of(Flows)[to].wakes[flow.run.id] = None
        raise
    run = new_step(p, flow, step, BUILT_IN[SEND], payload.EMPTY, State.UNDER_WAY, "sends", NO_OPTIONS)
    run.outcome = Outcome.SUCCEEDED
    p.move(run, State.SUCCEEDED, f"event {event} sent to {to}")


def deliver(p: Pass, target: Run, event: str, value: bytes, actor: str) -> Run:
    """Give an event to the step that waits for it, or keep it. Raise `EventRefused`, or `NotKnown`."""
    if p.state.job_of(target).workflow is None:
        raise BadUse("run", f"{target.id!r} is not a workflow, and reads no events")
    if target.closing is not None:
        raise EventRefused(f"event: run {target.id!r} is to end as {target.closing.state}, and reads no more events")
    flow = flow_of(p, target)
    prefix = f"{EVENT_RUN}{event}."
    numbers = [int(name[len(prefix) :]) for name in (*flow.live, *flow.ended) if name.startswith(prefix)]
    live = (p.state.runs.get(flow.id_of(f"{prefix}{number}")) for number in sorted(numbers))
    run = next((found for found in live if found is not None), None)
    if run is None:
        if len(list(_unread(flow))) >= MOST_UNREAD:
            text = f"event: run {target.id!r} has {MOST_UNREAD:,} unread events"
            raise EventRefused(f"{text}, and takes no more until it has read one")
        before = target.workflow_facet.read_before.get(event, 0)
        name = f"{prefix}{max([before, *numbers]) + 1}"
        run = new_step(p, flow, name, BUILT_IN[EVENT], payload.EMPTY, State.UNDER_WAY, "sent", NO_OPTIONS)
    run.result, run.outcome = value, Outcome.SUCCEEDED
    p.move(run, State.SUCCEEDED, f"event {event}", actor)
    return run


def flow_of(p: Pass, target: Run) -> Flow:
    """Return the record of a workflow, which may not have begun; raise `NotKnown`."""
    flows, facet = p.state.of(Flows), target.workflow_facet
    flow = flows.get(target.id)
    if flow is None:
        code, is_known = is_code(p.state.job_of(target)), not facet.has_events and facet.begins_with is None
        flow = flows[target.id] = Flow(target, 0, is_known=is_known, is_code=code, placed=p.elapsed)
    if not flow.is_known:
        effect = ReadRecord(target.id, target.seq, flow.placed)
        if effect not in p.state.of(PendingEffects).pending:
            ask(p, effect)
        raise NotKnown
    if target.state is not State.UNDER_WAY and not facet.has_events:
        p.set_facet(target, workflow=replace(facet, has_events=True))
    return flow


def _unread(flow: Flow) -> Iterator[str]:
    """Yield the events that no step has asked for."""
    asked = set(flow.run.workflow_facet.waits.values())
    return (name for name in (*flow.live, *flow.ended) if name.startswith(EVENT_RUN) and name not in asked)


# ── requests ────────────────────────────────────────────────────────────────────────────────────────────────────────


def send_needs(state: SchedulerState, command: SendEvent, needs: Needs) -> None:
    if command.run_id and command.run_id not in state.runs:
        needs.runs[command.run_id] = None
    if not command.run_id:
        needs.keys[command.tenant, command.key] = None
    if command.own_key:
        needs.keys[_key_of(state, command)] = None


def ask_for_inbox(state: SchedulerState, needs: Needs) -> None:
    for _, command in state.of(Flows).inbox:
        send_needs(state, command, needs)


def read_inbox(p: Pass) -> None:
    """Deliver events that came before the record of their workflow was read."""
    flows = p.state.of(Flows)
    inbox, flows.inbox = flows.inbox, []
    for origin, command in inbox:
        try:
            send(p, origin, command)
        except InterlockError as error:
            p.answers.append((origin, Failed(command.request, error.with_traceback(None))))


def send(p: Pass, origin: str, command: SendEvent) -> None:
    """Deliver an event; repeated with the same key it changes nothing."""
    STEP_WORD.check(command.name, FieldPath("name"))
    fault = payload.fault_of(command.value, "value")
    if fault is not None:
        raise BadValue("value", command.value[:100], f"a value that can be kept: {fault}")
    key, digest = _key_of(p.state, command), payload.digest(f"event {command.name}", command.value)
    known = p.run_of_key(key) if command.own_key else None
    if known is not None and not _is_of_earlier(p, command, known[0]):
        if known[1] != digest:
            raise IdempotencyConflict(command.own_key, known[0])
        p.answers.append((origin, ValueAnswer(command.request, ActedOn(id=known[0], state=State.SUCCEEDED))))
        return
    target = _target(p, command)
    try:
        run = deliver(p, target, command.name, command.value, command.actor or origin)
    except NotKnown:
        p.state.of(Flows).inbox.append((origin, command))
        return
    if known is not None:
        p.freed.add(known[0])
    if command.own_key:
        p.keys[key] = (run.id, digest)
        p.batch.keys.taken.append((*key, run.id, digest, p.now))
    p.answer(origin, command.request, run)


def _key_of(state: SchedulerState, command: SendEvent) -> tuple[str, str]:
    """Return the tenant and the key under which an event is known: its own key counts for one workflow run."""
    run = state.runs.get(command.run_id)
    whom = command.run_id or f"{command.workflow}\0{command.key}"
    digest = hashlib.blake2b(f"event\0{whom}\0{command.own_key}".encode(), digest_size=16).hexdigest()
    return (command.tenant if run is None else run.tenant), CALL_KEY + digest


def _is_of_earlier(p: Pass, command: SendEvent, event_run: str) -> bool:
    """Return whether an event went to an earlier run under the key of the workflow than the one that has it now."""
    run = None if command.run_id else p.run_of_key((command.tenant, command.key))
    return run is not None and run[0] != event_run.rpartition(f"@{EVENT_RUN}")[0]


def _target(p: Pass, command: SendEvent) -> Run:
    if command.run_id:
        run = p.find(command.run_id)
        if run is None:
            raise (RunPruned if command.run_id in p.facts.pruned else UnknownRun)(command.run_id)
        if run.ended_at is not None:
            raise EventRefused(f"event: run {run.id!r} has ended as {run.state}, and reads no more events")
        return run
    known = p.run_of_key((command.tenant, command.key))
    live = None if known is None else p.state.runs.get(known[0])
    if live is not None and live.job_id == command.workflow:
        return live
    if command.start is None or live is not None:
        text = f"event: no live run of workflow {command.workflow!r} has the key {command.key!r}"
        raise EventRefused(f"{text} in tenant {command.tenant!r}; start one, or ask for or_start")
    if command.fault is not None:
        raise rebuild(command.fault.code, command.fault.text)
    return _start(p, command, command.start, None if known is None else known[0])


def _start(p: Pass, command: SendEvent, content: bytes, before: str | None) -> Run:
    """Start the workflow that the event is for; its key belonged to a run that has ended."""
    job = p.state.job(command.workflow)
    if job.workflow is None:
        raise BadUse("workflow", f"{job.id!r} is not a workflow, and reads no events")
    lane, _ = lane_of(p, job.lane or MAIN)
    if p.state.draining or lane in p.state.lanes.draining:
        raise Draining(*() if p.state.draining else (lane,))
    parent = maker(p, command.parent, [command.tenant])
    check_tenants(p, [(command.tenant, lane)])
    if before is not None:
        p.freed.add(before)
    new = NewRun(job.id, content, command.tenant, idempotency_key=command.key)
    run = create_run(p, new, payload.digest(job.id, content), asker(command.actor, parent), "started by an event")
    if parent is not None:
        put_under(p, run, parent)
    return run
