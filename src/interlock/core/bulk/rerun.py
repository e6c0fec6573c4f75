"""Retries by clients: an ended run is run again as a new run that names it and passes admission like any other.

A request for one run has a key, from which the key of the new run is derived: a repeated request finds that run. A bulk
request reads the ended runs from the store a page at a time, newest first. The commit that stores the new runs of a
page also stores where the next page begins, so no run is retried twice, whenever the scheduler dies.
"""

import hashlib

from msgspec.structs import replace

from interlock.core.bulk.table import Bulks
from interlock.core.entry import lineage
from interlock.core.entry.admission import create_run, lane_of
from interlock.core.facts import Needs
from interlock.core.sessions.turns import check_room
from interlock.core.state import SchedulerState
from interlock.core.tenants.limits import check_tenants
from interlock.core.transition import Pass
from interlock.core.workflows.take_over import steps_before, take_over
from interlock.error import Draining, Forbidden, RunNotEnded, RunPruned, TenantLimit
from interlock.fields import payload
from interlock.model.access import OWNER
from interlock.model.bulk import BulkRequest, RunAction
from interlock.model.facets import Facets, OtherRun
from interlock.model.labels import BYPASSED
from interlock.model.letter import DeadLetter
from interlock.model.run import CALL_KEY, RETRY, UNSUCCESSFUL, Run, RunFilter
from interlock.wire.letter_request import Replay
from interlock.wire.request import NewRun, StartBulk
from interlock.wire.run_request import RetryRun

UNREAD = "unread"
UNREAD_SECONDS = 1.0  # until a page that could not be read is asked for again
PAGE = 64  # runs that one pass retries, each with a payload of up to 1 MiB


def needs_page(state: SchedulerState, command: StartBulk, needs: Needs) -> None:
    if command.action is RunAction.RETRY and command.bulk_id not in state.of(Bulks).requests:
        _need(state, needs, command.bulk_id, command.wanted, None)


def needs_next_page(state: SchedulerState, needs: Needs) -> None:
    """Ask for the next page of the bulk request whose turn it is."""
    bulks = state.of(Bulks)
    bulk = bulks.requests[next(iter(bulks.walks))] if bulks.walks and not bulks.is_unread else None
    if bulk is not None and bulk.action is RunAction.RETRY and not state.draining:
        _need(state, needs, bulk.id, bulk.wanted, bulk.before)


def _need(state: SchedulerState, needs: Needs, bulk_id: str, wanted: RunFilter, before: int | None) -> None:
    ended = replace(wanted, states=wanted.states or UNSUCCESSFUL, live=False)
    if wanted.parent is None and wanted.root is None:
        ended = replace(ended, is_step=False)  # a workflow that is retried runs its steps again
    needs.pages[bulk_id] = (ended, before, min(PAGE, state.limits.bulk_runs))


def needs_run_again(state: SchedulerState, command: RetryRun, needs: Needs) -> None:
    needs.runs[command.run_id] = None
    if command.from_step:
        needs.steps[command.run_id] = None
    if (key := key_of(command)) is not None:
        needs.retries[command.run_id, key] = None


def retry_one(p: Pass, origin: str, command: RetryRun) -> None:
    run = p.asked(command)
    if run.ended_at is None:
        raise RunNotEnded(run.id, run.state)
    made_by = lineage.maker(p, command.parent, [run.tenant])
    key = key_of(command)
    known = None if key is None else p.run_of_key((run.tenant, key))
    changed = command.arguments if isinstance(command, Replay) else b""
    lane, _ = lane_of(p, run.lane)
    if known is None and lane in p.state.lanes.draining:
        raise Draining(lane)
    if known is None:
        taken = steps_before(p, run, command.from_step) if command.from_step else []
        new = _new_run(p, run, key, changed)
        check_room(p, new, {})
        check_tenants(p, [(run.tenant, lane)])
        reason, actor = command.why, lineage.asker(command.actor or OWNER.name, made_by)
        again = _run_again(p, run, new, reason, actor, bool(changed), () if made_by is None else made_by.submitters)
        if command.from_step:
            take_over(p, again, run, command.from_step, taken)
    elif (found := p.find(known[0])) is not None:
        again = found
    else:
        raise RunPruned(known[0])
    p.answer(origin, command.request, again)


def key_of(command: RetryRun) -> str | None:
    """Return the idempotency key of the new run; None for a request without a key."""
    if not command.key:
        return None
    return CALL_KEY + hashlib.blake2b(f"{command.run_id}\0{command.key}".encode(), digest_size=16).hexdigest()


def wait_for_page(p: Pass) -> None:
    """Ask for no page for a while: the last one could not be read."""
    p.state.of(Bulks).is_unread = True
    p.state.set_alarm(p.elapsed + UNREAD_SECONDS, UNREAD, UNREAD)


def ask_again(p: Pass, name: str, at: float) -> None:
    p.state.of(Bulks).is_unread = False


def retry_page(p: Pass, bulk: BulkRequest, page: tuple[list[Run], int | None]) -> BulkRequest:
    """Retry the runs of the page that was read, except those that were retried before, were collapsed into another,
    have no job any more, have a draining lane, or are beyond the limits of their tenant."""
    runs, before = page
    done = bulk.done
    for old in runs:
        facets = p.marked.get(old.id, old).facets or Facets()
        is_done = facets.retried_as is not None or facets.collapsed_into is not None
        lane, _ = lane_of(p, old.lane)
        is_done = is_done or old.job_id not in p.state.jobs or lane in p.state.lanes.draining
        if not is_done and _is_allowed(p, old.tenant, lane):
            _run_again(p, old, _new_run(p, old, None), bulk.reason, bulk.actor, behind=bulk.behind)
            done += 1
    return replace(bulk, done=done, before=before, ended_at=p.now if before is None else None, seq=bulk.seq + 1)


def _is_allowed(p: Pass, tenant: str, lane: str) -> bool:
    try:
        check_tenants(p, [(tenant, lane)])
    except (Forbidden, TenantLimit):
        return False
    return True


def _new_run(p: Pass, old: Run, key: str | None, changed: bytes = b"") -> NewRun:
    if p.state.draining:
        raise Draining
    p.state.job(old.job_id)
    data = changed or old.payload
    if data is None:  # it ended in this pass, and memory does not keep large payloads
        data = p.facts.runs[old.id].payload or payload.EMPTY
    facets = old.facets or Facets()
    labels = {name: text for name, text in old.labels.items() if name != BYPASSED}
    deadline = None
    if old.deadline_at is not None:
        deadline = p.now + max(0.0, old.deadline_at - max(old.scheduled_at, old.created_at))
    # Without the stamp of the old message, which may be older than a stop of the session.
    return NewRun(
        old.job_id, data, old.tenant, old.lane, old.session, key, deadline, origin=RETRY, labels=labels or None,
        priority=facets.priority, session_options=old.session_facet.options,
    )  # fmt: skip


def _run_again(
    p: Pass, old: Run, new: NewRun, reason: str, actor: str, changed: bool = False, behind: tuple[str, ...] = ()
) -> Run:
    digest = None if new.idempotency_key is None else payload.digest(new.job_id, new.payload)
    again = create_run(p, new, digest, actor, reason, OtherRun(run_id=old.id))
    lineage.place(p, again, old, behind)
    if old.facets is not None and old.facets.collected is not None and not changed:
        p.set_facet(again, collected=old.facets.collected)
        p.batch.inputs.copied.append((again.id, old.id, False))
    p.count("replays_total")
    if (letter := p.record(DeadLetter, old.id)) is not None:
        p.keep(replace(letter, replayed_as=again.id, seq=letter.seq + 1))
    p.mark(old, retried_as=OtherRun(run_id=again.id))
    return again
