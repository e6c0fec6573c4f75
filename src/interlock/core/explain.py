"""Explain a live run: each part answers for what it holds. Nothing here changes the state.

Each part has a function `explain(state, run, now)` beside its code that yields what the run waits for there (`explains`
of its part). The end of a run is explained from its record (`model/explanation.py`). The simulator explains runs before
each pass, and fails if a run starts while a given reason still stands.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from interlock.core.lanes.fill import waits_in_lane
from interlock.core.routing import dispatch
from interlock.core.state import SchedulerState
from interlock.fields.duration import span
from interlock.model.approval import verdict_of
from interlock.model.explanation import Explanation, Obstacle, Reason, ReasonKind, WorkerFit, sentence_of
from interlock.model.run import Now, Run

MOST_WORKERS = 100
MOST_IN_TEXT = 3  # workers that a sentence names

K = ReasonKind
TIMED = frozenset({K.SCHEDULED_TIME, K.RETRY, K.DEBOUNCE, K.RATE})  # their end is known
PASSING = frozenset({K.LANE_FULL, K.LANE_TURN, K.READY, K.BULK})  # their end depends on the pace of the lane


def explain(
    state: SchedulerState, run: Run, now: Now, faults: Mapping[str, str] = {}, tenant: str | None = None
) -> Explanation:
    """Explain a run that has not ended, without the ids of other tenants' runs and workers if `tenant` is given."""
    reasons = [reason for explain in state.machine.explains for reason in explain(state, run, now)]
    workers: list[WorkerFit] = []
    if waits_in_lane(state, run) and state.job_of(run).workflow is None:
        every = (worker for worker in dispatch.explain(state, run, faults) if sees(state, tenant, worker.id))
        workers = sorted(every, key=lambda worker: not worker.fits)[:MOST_WORKERS]
        if not any(worker.fits for worker in workers):
            reasons.append(dispatch.no_worker(state, run, now, obstacles_of(workers)))
    if not reasons:
        reasons.append(Reason(kind=K.READY, text="is ready: nothing holds it back"))
    if tenant is not None:
        reasons = [without_others(state, reason, tenant) for reason in reasons]
    ends = [reason.at for reason in reasons if reason.kind in TIMED and reason.at is not None]
    next_at = max(ends, default=None)
    estimate_at = _estimate(state, run, now, reasons, workers, next_at)
    sentence = sentence_of(reasons)
    if estimate_at is not None and estimate_at != next_at:
        sentence += f" Estimated start: in about {span(estimate_at - now.wall)}, at the recent pace of its lane."
    return Explanation(
        run_id=run.id,
        state=run.state,
        sentence=sentence,
        reasons=reasons,
        workers=workers,
        next_at=next_at,
        estimate_at=estimate_at,
        verdict=verdict_of(run.judged, run.allowed),
        notes=run.notes,
    )


def obstacles_of(workers: list[WorkerFit]) -> str:
    if not workers:
        return "none is connected"
    named = [f"{worker.id} {worker.text}" for worker in workers[:MOST_IN_TEXT]]
    rest = len(workers) - len(named)
    return ", ".join(named) + (f", and {rest:,} more" if rest else "")


def sees(state: SchedulerState, tenant: str | None, worker_id: str) -> bool:
    served = None if worker_id not in state.workers else state.workers[worker_id].tenants
    return tenant is None or served is None or tenant in served


def without_others(state: SchedulerState, reason: Reason, tenant: str) -> Reason:
    def own(run_ids: list[str]) -> list[str]:
        return [run_id for run_id in run_ids if run_id in state.runs and state.runs[run_id].tenant == tenant]

    return replace(reason, ahead=own(reason.ahead), holders=own(reason.holders))


def _estimate(
    state: SchedulerState,
    run: Run,
    now: Now,
    reasons: list[Reason],
    workers: list[WorkerFit],
    next_at: float | None,
) -> float | None:
    """Return roughly when the run starts; None if something is in its way whose end nobody can know."""
    kinds = {reason.kind for reason in reasons}
    if any(worker.obstacle is Obstacle.FULL for worker in workers):
        kinds.discard(K.NO_WORKER)
    if not kinds <= TIMED | PASSING:
        return None
    if not workers:
        return next_at
    pace = state.lanes[run.lane].pace(now.elapsed)
    if pace < 1e-6:
        return None
    place = max((reason.place or 1 for reason in reasons if reason.kind is K.LANE_TURN), default=1)
    return max(now.wall + place / pace, next_at or 0.0)
