"""Bulk requests: one request for many runs, carried out in parts, one part a pass.

A request walks the runs that were live when it arrived, and no later ones. It begins with the newest: the oldest
execute or soon will, and a slot that one of them frees would only go to a run that the request ends next. The commit
that stores the changes also stores the counts and the last run looked at, and after a restart the walk goes on there.
A retry walks ended runs, which only the store has (`rerun.py`).
"""

from collections.abc import Iterator

from msgspec.structs import replace

from interlock.core.attempts.settle import cancel_run
from interlock.core.bulk import rerun
from interlock.core.bulk.table import Bulks
from interlock.core.entry.actions import ACTIONS
from interlock.core.entry.lineage import asker, maker
from interlock.core.state import SchedulerState
from interlock.core.transition import Pass
from interlock.core.workflows import closing as workflows
from interlock.error import BadUse, Draining, IdempotencyConflict, NotHere, Overloaded, StoreUnavailable, rebuild
from interlock.model.bulk import BulkRequest, RunAction
from interlock.model.explanation import Reason, ReasonKind
from interlock.model.run import Now, Run, RunFilter
from interlock.model.state import TERMINAL
from interlock.wire.request import StartBulk, ValueAnswer
from interlock.wire.run_request import CancelRun

LOOKS = 20_000  # runs that one pass looks at
MOST_AT_ONCE = 32  # requests under way at once, each with a list of all live runs
MOST_KEPT = 1000  # requests kept


def start(p: Pass, origin: str, command: StartBulk) -> None:
    bulk = p.state.of(Bulks).requests.get(command.bulk_id)
    if bulk is None:
        bulk = _begin(p, command, command.actor or origin)
    elif (bulk.action, bulk.wanted) != (command.action, command.wanted):
        raise rebuild(IdempotencyConflict.code, "Idempotency-Key: already used with another filter; use a new key")
    p.answers.append((origin, ValueAnswer(command.request, bulk)))


def cancel(p: Pass, origin: str, command: CancelRun) -> None:
    """Cancel a run. A cancel that cascades is also a request for all runs that it has made."""
    run, actor = p.asked(command), command.actor or origin
    if command.compensate and run.ended_at is None and p.state.job_of(run).workflow is None:
        raise BadUse("compensate", f"run {run.id!r} is not a workflow, and has nothing to undo; leave it out")
    if command.cascade:
        below = RunFilter(under=run.id, tenant=run.tenant)
        given = f"{p.rng.getrandbits(96):024x}", command.does, below, command.reason
        found = _begin(p, StartBulk(0, *given), actor)
        # The request covers the runs that were stored before it.
        for child in [child for child in p.created.values() if child.is_under(run.id)]:
            cancel_with_children(p, child, found.reason, found.actor)
    if run.ended_at is None and command.compensate:
        workflows.cancel(p, run, command.why, actor, compensate=True)
    elif run.ended_at is None:
        cancel_run(p, run, command.why, actor)
    p.answer(origin, command.request, run)


def _begin(p: Pass, command: StartBulk, actor: str) -> BulkRequest:
    is_retry = command.action is RunAction.RETRY
    if wrong := command.wanted.states - TERMINAL if is_retry else command.wanted.states & TERMINAL:
        what = "have not ended" if is_retry else "have ended"
        raise NotHere("state", min(wrong).value, f"to {command.action}", f"runs in it {what}")
    if is_retry and command.wanted.under is not None:
        raise BadUse("under", "is for runs that have not ended; choose runs to retry by root")
    made_by = maker(p, command.parent, [str(command.wanted.tenant)]) if is_retry else None
    if is_retry and p.state.draining:
        raise Draining
    if is_retry and command.wanted.job_id is not None:
        p.state.job(command.wanted.job_id)
    page = p.facts.pages.pop(command.bulk_id, None)
    if is_retry and page is None:
        raise StoreUnavailable("the first page of runs could not be read")
    if len(p.state.of(Bulks).walks) >= MOST_AT_ONCE:
        raise Overloaded(f"{MOST_AT_ONCE} bulk requests are under way; try again when one has finished")
    # It must not see runs of other tenants, not even in the number of those left.
    tenant = command.wanted.tenant
    walk = [] if is_retry else [run for run in p.state.runs.values() if tenant in (None, run.tenant)]
    while walk and walk[-1].id in p.created:
        walk.pop()  # in the store, a run of the same commit comes after the request
    bulk = BulkRequest(
        id=command.bulk_id,
        action=command.action,
        wanted=command.wanted,
        actor=asker(actor, made_by),
        reason=command.reason or command.action.done,
        created_at=p.now,
        left=None if is_retry else len(walk),
        behind=() if made_by is None else made_by.submitters,
    )
    p.state.of(Bulks).walks[bulk.id] = walk
    _keep(p, bulk if page is None else rerun.retry_page(p, bulk, page))
    bulks = p.state.of(Bulks)
    if len(bulks.requests) > MOST_KEPT:
        oldest = next(bulk_id for bulk_id in bulks.requests if bulk_id not in bulks.walks)
        del bulks.requests[oldest]
        p.forget(BulkRequest, oldest)
    return bulks.requests[bulk.id]


def _keep(p: Pass, bulk: BulkRequest) -> None:
    p.state.of(Bulks).requests[bulk.id] = bulk
    p.keep(bulk)
    if bulk.ended_at is not None:
        p.state.of(Bulks).walks.pop(bulk.id, None)


def proceed(p: Pass) -> None:
    """Carry out a part of the first request, then move it to the end."""
    if not p.state.of(Bulks).walks:
        return
    bulk_id = next(iter(p.state.of(Bulks).walks))
    walk = p.state.of(Bulks).walks.pop(bulk_id)
    bulk = p.state.of(Bulks).requests[bulk_id]
    if bulk.action is RunAction.RETRY:
        _retry_next(p, bulk)
        return
    act, wanted, reason, actor = ACTIONS[bulk.action], bulk.wanted, bulk.reason, bulk.actor
    if bulk.is_cascade:
        act = cancel_with_children
    done, asked, walked = bulk.done, bulk.asked, bulk.walked
    room, looks = p.state.limits.bulk_runs, LOOKS
    while walk and room > 0 and looks:
        looks -= 1
        run = walk.pop()
        if run.ended_at is not None:
            continue  # it may be pruned, and would no longer show how far the request has come
        walked = run.id
        targets = _with_workflows(p, run) if bulk.action is RunAction.CANCEL else [run]
        acted_on = [target for target in targets if wanted.fits(target) and act(p, target, reason, actor)]
        stopping = sum(target.ended_at is None and target.stop is not None for target in acted_on)
        room -= len(acted_on)
        asked += stopping
        done += len(acted_on) - stopping
    if walk:
        p.state.of(Bulks).walks[bulk_id] = walk
    if not walk or (done, asked) != (bulk.done, bulk.asked):
        ended_at, seq = None if walk else p.now, bulk.seq + 1
        _keep(p, replace(bulk, done=done, asked=asked, left=len(walk), ended_at=ended_at, seq=seq, walked=walked))


def _with_workflows(p: Pass, run: Run) -> list[Run]:
    """Return the live workflows above a step, the outermost first, and then the step. A step that is cancelled first
    is an error of its workflow, which then fails."""
    found = [run]
    while found[0].is_step and (above := p.state.runs.get(found[0].parent or "")) is not None:
        found.insert(0, above)
    return found


def cancel_with_children(p: Pass, run: Run, reason: str, actor: str) -> bool:
    """Cancel a run, which makes no further runs until it has stopped."""
    is_changed = cancel_run(p, run, reason, actor)
    if run.ended_at is None:
        p.set_facet(run, cascade=True)
    return is_changed


def _retry_next(p: Pass, bulk: BulkRequest) -> None:
    """Retry the next page, if it was asked for. A scheduler that drains leaves the rest to the next one."""
    if not p.state.draining:
        p.state.of(Bulks).walks[bulk.id] = []
        if bulk.id not in p.facts.pages:
            return
        if (page := p.facts.pages.pop(bulk.id)) is None:
            rerun.wait_for_page(p)
        else:
            _keep(p, rerun.retry_page(p, bulk, page))


def explain(state: SchedulerState, run: Run, now: Now) -> Iterator[Reason]:
    """Explain which requests under way will still act on the run."""
    done = {RunAction.CANCEL: run.stop is not None, RunAction.HOLD: run.is_held, RunAction.RELEASE: not run.is_held}
    for bulk in map(state.of(Bulks).requests.__getitem__, state.of(Bulks).walks):
        if not done.get(bulk.action, True) and run.created_at <= bulk.created_at and bulk.wanted.fits(run):
            text = f"has not yet been reached by bulk request {bulk.id}: {bulk.action} by {bulk.actor}"
            yield Reason(kind=ReasonKind.BULK, text=text, name=bulk.id, since=bulk.created_at)
