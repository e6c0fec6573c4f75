"""The overview of live runs. It explains the first run of each queue, and counts the queue with it, so it costs a walk
over the live runs and a look at each queue. Nobody pays for it before somebody asks."""

from collections import Counter
from collections.abc import Iterator
from heapq import nlargest
from itertools import chain
from operator import attrgetter

import msgspec

from interlock.core.explain import obstacles_of, sees, without_others
from interlock.core.jobs.queries import lane_info
from interlock.core.lanes.fill import explain_turn, waits_in_lane
from interlock.core.part import Part
from interlock.core.policy.judge_state import Judging
from interlock.core.routing import dispatch
from interlock.core.sessions.session import Sessions
from interlock.core.state import SchedulerState
from interlock.fields.safe_text import counted
from interlock.model.explanation import Reason, ReasonKind, WorkerFit, without_workers
from interlock.model.lane import LaneStatus
from interlock.model.overview import Need, NeedKind, Overview, WaitingRuns
from interlock.model.run import Now, Run
from interlock.model.state import HOLDS_SLOT, LIVE, State
from interlock.wire.overview_request import AskOverview
from interlock.wire.request import ValueAnswer

MOST_QUEUES = 1000
MOST_REASONS = 100
MOST_LOOKS = 20_000  # looks at workers
APART = LIVE - HOLDS_SLOT - {State.SCHEDULED, State.UNDER_WAY}
"""states whose runs wait neither in a lane nor for their session: those of a job in such a state count as one queue"""
K = ReasonKind


class Queue(msgspec.Struct):
    first: Run
    count: int


def overview(question: AskOverview, state: SchedulerState, now: Now) -> ValueAnswer:
    tenant = question.only_tenant
    runs = [run for run in state.runs.values() if tenant in (None, run.tenant)]
    queues = [*_apart(runs), *_of_lanes(state, tenant), *_of_sessions(state, tenant)]
    waiting, unexplained = _Explainer(state, now, tenant).explain(queues)
    connected = (worker for worker in state.workers.values() if worker.connected and sees(state, tenant, worker.id))
    found = Overview(
        needs=[*_approvals(state, now, tenant), *_halted(runs), *_paused(state, tenant)],
        waiting=waiting,
        unexplained=unexplained,
        states={state.value: count for state, count in Counter(run.state for run in runs).items()},
        lanes=[] if tenant is not None else [lane_info(state, lane, now.wall) for lane in state.lanes.values()],
        workers=sum(1 for _ in connected),
        policy=state.of(Judging).digest or None,
    )
    return ValueAnswer(question.request, found if tenant is None else without_workers(found, state.workers))


# ── queues ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _apart(runs: list[Run]) -> Iterator[Queue]:
    queues: dict[tuple[str, str, bool], Queue] = {}
    for run in runs:
        if run.state in APART:
            queue = queues.setdefault((run.state, run.job_id, run.is_held), Queue(run, 0))
            queue.count += 1
            if run.changed_at < queue.first.changed_at:
                queue.first = run
    yield from queues.values()


def _of_lanes(state: SchedulerState, tenant: str | None) -> Iterator[Queue]:
    for lane in state.lanes.values():
        for line in lane.lines.values():
            if tenant in (None, line.key[1]):
                for queue in line.queues.values():
                    waiting = [run for _, run in filter(lane.waits, queue)] if lane.dead else [run for _, run in queue]
                    if waiting:
                        yield Queue(waiting[0], len(waiting))


def _of_sessions(state: SchedulerState, tenant: str | None) -> Iterator[Queue]:
    for session in state.of(Sessions).values():
        if tenant in (None, session.tenant):
            waiting = [run for run in session.waiting.values() if run.state is State.SCHEDULED]
            if waiting:
                yield Queue(waiting[0], len(waiting))


# ── reasons ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Explainer:
    def __init__(self, state: SchedulerState, now: Now, tenant: str | None) -> None:
        self._state, self._now, self._tenant = state, now, tenant
        self._looks = 0
        self._lacks: dict[object, Reason | None] = {}  # what a run demands → why no worker takes it
        self._explains = [explain for explain in state.machine.explains if explain is not explain_turn]

    def explain(self, queues: list[Queue]) -> tuple[list[WaitingRuns], int]:
        """Return the waiting runs by reason, and the number of the others."""
        groups: dict[tuple[str, ...], WaitingRuns] = {}
        total, explained = sum(queue.count for queue in queues), 0
        for queue in nlargest(MOST_QUEUES, queues, attrgetter("count")):
            reason = self._reason(queue.first)
            if reason is not None:
                self._add(groups, queue, reason)
        waiting = nlargest(MOST_REASONS, groups.values(), attrgetter("count"))
        explained = sum(group.count for group in waiting)
        return waiting, total - explained

    def _reason(self, run: Run) -> Reason | None:
        for explain in self._explains:
            for reason in explain(self._state, run, self._now):
                return reason
        if waits_in_lane(self._state, run) and self._state.job_of(run).workflow is None:
            job_id, room, _, needs = dispatch.route_key(self._state, run)
            demand = job_id, room, needs, run.tenant
            if demand not in self._lacks:
                if self._looks >= MOST_LOOKS:
                    return None
                self._lacks[demand] = self._lack(run)
            if (lack := self._lacks[demand]) is not None:
                return lack
        return Reason(kind=K.READY, text="is ready: nothing holds it back")

    def _lack(self, run: Run) -> Reason | None:
        """Return why no worker takes a run; None if one does."""
        workers: list[WorkerFit] = []
        for worker in dispatch.explain(self._state, run, {}):
            self._looks += 1
            if worker.fits:
                return None
            if sees(self._state, self._tenant, worker.id):
                workers.append(worker)
        return dispatch.no_worker(self._state, run, self._now, obstacles_of(workers))

    def _add(self, groups: dict[tuple[str, ...], WaitingRuns], queue: Queue, reason: Reason) -> None:
        state, run = self._state, queue.first
        name = None if reason.kind in (K.SESSION_TURN, K.DEBOUNCE) else reason.name  # there may be many sessions
        job = run.job_id if reason.kind is K.NO_WORKER and name is not None else ""
        key = reason.kind, name or "", job
        known = groups.get(key)
        if known is not None and known.since <= run.changed_at:
            groups[key] = msgspec.structs.replace(known, count=known.count + queue.count)
            return
        shown = reason if self._tenant is None else without_others(state, reason, self._tenant)
        in_lane = run.state is State.SCHEDULED and run.lane in state.lanes
        groups[key] = WaitingRuns(
            kind=reason.kind,
            name=name,
            job=run.job_id,
            text=reason.text,
            count=queue.count + (0 if known is None else known.count),
            since=run.changed_at,
            run=run.id,
            at=reason.at,
            pace=round(state.lanes[run.lane].pace(self._now.elapsed), 3) if in_lane else None,
            holders=shown.holders,
        )


# ── needs ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _approvals(state: SchedulerState, now: Now, tenant: str | None) -> Iterator[Need]:
    waiting = [run for run in state.of(Judging).awaiting_approval.values() if tenant in (None, run.tenant)]
    if waiting:
        first = min(waiting, key=lambda run: (run.due_at or 0.0, run.id))
        judged = first.judged
        yield Need(
            kind=NeedKind.APPROVAL,
            text=f"{counted(len(waiting), 'run')} {'waits' if len(waiting) == 1 else 'wait'} for an approval",
            detail=f"{first.job_id}: {judged.reason}" if judged is not None else first.job_id,
            count=len(waiting),
            since=min(run.changed_at for run in waiting),
            until=None if first.due_at is None else first.due_at + state.jump(now),
            run=first.id,
        )


def _halted(runs: list[Run]) -> Iterator[Need]:
    halts = [
        (run.workflow_facet.halt, run)
        for run in runs
        if run.state is State.UNDER_WAY and run.facets is not None and run.workflow_facet.halt is not None
    ]
    if halts:
        halt, run = min(halts, key=lambda found: (found[0].at, found[1].id))
        text = f"{counted(len(halts), 'workflow')} {'is' if len(halts) == 1 else 'are'} halted"
        yield Need(
            kind=NeedKind.WORKFLOW,
            text=text,
            detail=f"{run.job_id}: {halt.text}",
            name=run.job_id,
            count=len(halts),
            since=halt.at,
            run=run.id,
        )


def _paused(state: SchedulerState, tenant: str | None) -> Iterator[Need]:
    """Yield paused lanes and schedules, which belong to all tenants."""
    if tenant is not None:
        return
    for lane in state.lanes.values():
        if lane.status is not LaneStatus.OPEN:
            memo = state.lanes.memos[lane.name]
            yield Need(
                kind=NeedKind.LANE,
                text=f"lane {lane.name} is {lane.status}{f' by {memo.by}' if memo.by else ''}",
                detail=f"{counted(lane.waiting, 'run')} {'waits' if lane.waiting == 1 else 'wait'}",
                name=lane.name,
                count=lane.waiting,
                since=memo.since or None,
            )
    paused = [entry.job.id for entry in state.timetable.entries.values() if entry.paused]
    if paused:
        text = f"{counted(len(paused), 'schedule')} {'is' if len(paused) == 1 else 'are'} paused"
        named = ", ".join(chain(paused[:5], ["…"] if len(paused) > 5 else []))
        yield Need(kind=NeedKind.SCHEDULE, text=text, detail=named, name=paused[0], count=len(paused))


OVERVIEW = Part(name="overview", answers={AskOverview: overview})
