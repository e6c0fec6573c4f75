"""Actions on runs: clients cancel, hold and release one or many, and time limits stop those that take too long.

Stopping ends a waiting run at once, and asks the worker of an executing one.
"""

from collections.abc import Callable, Iterator

from interlock.core.attempts import settle
from interlock.core.guards import constraints
from interlock.core.guards.actions import violate
from interlock.core.part import for_special_runs
from interlock.core.sessions.session import Sessions
from interlock.core.state import ATTEMPT_RUNTIME, SchedulerState
from interlock.core.transition import Pass
from interlock.fields.duration import checked, span
from interlock.model.bulk import RunAction
from interlock.model.explanation import Reason, ReasonKind
from interlock.model.facets import Hold
from interlock.model.failure import Outcome
from interlock.model.guard import ALLOWED
from interlock.model.run import Now, Run
from interlock.model.state import HOLDS_SLOT, ON_WORKER, State
from interlock.wire.run_request import HoldRun, ReleaseRun


def act(p: Pass, origin: str, command: HoldRun | ReleaseRun) -> None:
    run = p.asked(command)
    if run.ended_at is None:
        ACTIONS[command.does](p, run, command.why, command.actor or origin)
    p.answer(origin, command.request, run)


def hold(p: Pass, run: Run, reason: str, actor: str) -> bool:
    """Keep a run from starting until it is released. Its deadline still counts."""
    if run.is_held:
        return False
    p.set_facet(run, hold=Hold(by=actor, at=p.now))
    if run.state is State.SCHEDULED:
        p.move(run, State.PENDING, reason, actor)
        p.state.of(Sessions).stepping_back.append(run)
    return True


def release(p: Pass, run: Run, reason: str, actor: str) -> bool:
    if not run.is_held:
        return False
    p.set_facet(run, hold=None)
    if run.state is State.PENDING:
        p.entering.append(run)
    elif run.state is State.CONDITION_RUNNING:
        constraints.proceed(p, run)
    return True


@for_special_runs
def stays_held(p: Pass, run: Run) -> bool:
    """Keep a held run pending; a stage of the entry."""
    return run.is_held


def explain(state: SchedulerState, run: Run, now: Now) -> Iterator[Reason]:
    """Explain a hold: the run does not start before somebody releases it."""
    hold = None if run.facets is None else run.facets.hold
    if hold is not None and run.state not in HOLDS_SLOT and run.state is not State.UNDER_WAY:
        text = f"is held by {hold.by} until it is released"
        yield Reason(kind=ReasonKind.HELD, text=text, name=hold.by, since=hold.at)


def has_expired(p: Pass, run: Run) -> bool:
    """Stop a run past its deadline; also a stage of the entry."""
    if run.deadline_at is None or run.deadline_at > p.now or run.state is State.TERMINATING:
        return False
    _time_out(p, run, settle.DEADLINE)
    return True


def overrun(p: Pass, run: Run, kind: str) -> None:
    """Stop a run if it or its attempt has run for too long. One that has done its work waits only for its hook,
    and a verdict may have lifted the limit."""
    job = p.state.job_of(run)
    if run.state is State.TERMINATING or kind not in dict(settle.runtimes(job, run)):
        return
    name = settle.limit_name(job, run, kind)
    if name.startswith(ALLOWED):
        violate(p, run, ALLOWED, f"stopped after {span(checked(job.constraints.max_allowed_run_time))} of run time")
    if kind != ATTEMPT_RUNTIME:
        _time_out(p, run, f"{name} passed")
    elif run.state in ON_WORKER and run.stop is None:
        _ask_to_stop(p, run, settle.ATTEMPT_TIMEOUT, f"{name} passed")


def end_start(p: Pass, run: Run) -> None:
    """Stop an attempt whose start takes too long."""
    if run.stop is None:
        limit = settle.as_written(p.state.job_of(run).start_timeout)
        reason = settle.start_reason(p.state, run)
        _ask_to_stop(p, run, settle.ATTEMPT_TIMEOUT, f"start_timeout of {limit} passed ({reason})")


def _time_out(p: Pass, run: Run, why: str) -> None:
    if (stop := p.state.machine.stops.get(run.state)) is not None:
        stop(p, run, State.TIMEOUT, why, "scheduler")
    elif run.state not in ON_WORKER:
        run.outcome = Outcome.TIMEOUT
        p.move(run, State.TIMEOUT, f"{why} while {run.state}")
    elif run.stop in (None, settle.ATTEMPT_TIMEOUT):
        _ask_to_stop(p, run, settle.TIMEOUT, why)


def _ask_to_stop(p: Pass, run: Run, stop: str, why: str) -> None:
    grace = settle.as_written(p.state.job_of(run).grace)
    settle.ask_to_stop(p, run, stop, f"{why}, with a grace of {grace} on top", "scheduler")


ACTIONS: dict[RunAction, Callable[[Pass, Run, str, str], bool]] = {
    RunAction.CANCEL: settle.cancel_run,
    RunAction.HOLD: hold,
    RunAction.RELEASE: release,
}
"""action → its effect on a live run, with a reason and an actor; False if nothing changed"""
