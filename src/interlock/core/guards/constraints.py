"""Constraints: a stage of the entry that checks whether a run may start, and acts if it may not.

    pending ─► condition_pending ─► condition_running ─► scheduled
                      ▲                    │
                      │             action_pending
                      │                    │
                      └───────────── action_running ─► skipped, or scheduled with `on_error: allow`

While a run is in `condition_running`, the store, hooks and check jobs answer; its facet keeps the answers, so a restart
asks only for the missing ones. The rest is checked in the pass that has the last answer: a run
takes its place in the same step that finds it free. In `action_running` a run waits for a time, for other runs of its
job to end, or for a run that it has called.
"""

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from interlock.core import effects, output
from interlock.core.attempts.settle import cancel_run
from interlock.core.entry.admission import admit
from interlock.core.guards.actions import EVENTS, ActionFailed, about, create_caused_run, inform_all, notify, violate
from interlock.core.guards.http_hooks import GOOD, call_hook, hook_of
from interlock.core.guards.job_guard import ACTION, Guards, Overtaken, explain_wait, guard_of, park, ready_runs, waits
from interlock.core.part import for_special_runs
from interlock.core.sessions.turns import let_others_pass
from interlock.core.state import SchedulerState
from interlock.core.transition import Pass
from interlock.fields.duration import brief, checked, span
from interlock.model import guard as g
from interlock.model.explanation import Reason, ReasonKind
from interlock.model.failure import Outcome
from interlock.model.job import Job
from interlock.model.run import Now, Run
from interlock.model.state import State
from interlock.wire.effect import ReadPrevious

LONGEST_MESSAGE = 500


def constrain(p: Pass, run: Run) -> bool:
    """Check the constraints of a run that is due; a stage of the entry."""
    constraints = p.state.job_of(run).constraints
    if constraints is g.NO_CONSTRAINTS or not constraints.before:
        return False
    if run.facets is not None and run.facets.caused_by is not None and run.facets.caused_by.check:
        # Another run waits for it: its own constraints could make both wait for ever.
        return False
    if run.guarded.cleared and not (constraints.recheck_on_retry and run.previous is State.RETRYING):
        return False
    guard_of(p.state, run.job_id).pending[run.id] = run
    p.move(run, State.CONDITION_PENDING, p.cleared_because.get(run.id, "constraints must be checked"))
    _check(p, run)
    if run.state is State.CONDITION_RUNNING:
        let_others_pass(p, run)
    return True


def _check(p: Pass, run: Run) -> None:
    names = _names(p.state, run)
    p.move(run, State.CONDITION_RUNNING, f"checks {', '.join(names)}")
    guarded = run.guarded
    fresh = replace(guarded, answers={}, asked={}, decision=None, step=0, checked=guarded.checked + len(names))
    p.set_facet(run, constraints=fresh)
    ask(p, run)


def _names(state: SchedulerState, run: Run) -> list[str]:
    """Return the constraints to check: all of them, or before a retry those in `recheck_on_retry`."""
    constraints = state.job_of(run).constraints
    names = [name for name in constraints.before if not run.guarded.cleared or name in constraints.recheck_on_retry]
    return [check for name in names for check in (_checks(state, run) if name == g.CHECKS else [name])]


def _checks(state: SchedulerState, run: Run) -> dict[str, g.Check]:
    """Return the checks of a run by the names of their constraints."""
    return {f"check {check.job}": check for check in state.job_of(run).constraints.checks if isinstance(check, g.Check)}


def _missing(state: SchedulerState, run: Run) -> list[str]:
    """Return the constraints that wait for an answer from outside the pass."""
    return [name for name in _names(state, run) if name not in (*run.guarded.answers, g.WINDOW, g.MAX_CONCURRENT)]


def ask(p: Pass, run: Run) -> None:
    """Ask for the missing answers, after a restart again and with the same ids, or judge if none is missing."""
    for name in _missing(p.state, run):
        if name == g.PREVIOUS:
            effects.ask(p, ReadPrevious(run.id, run.seq))
        elif name == g.PRE_HOOK:
            call_hook(p, run, name)
        elif name not in run.guarded.asked:
            _begin_check(p, run, name)
            if run.state is not State.CONDITION_RUNNING:
                return
    proceed(p, run)


def _begin_check(p: Pass, run: Run, name: str) -> None:
    check = _checks(p.state, run)[name]
    try:
        called = create_caused_run(
            p, run, check.job, about(run, "check"), name, checked(check.timeout), "called to check"
        )
    except ActionFailed as error:
        _unanswered(p, run, name, g.OnHookError(check.on_error), str(error))
    else:
        p.set_facet(run, constraints=replace(run.guarded, asked={**run.guarded.asked, name: called.id}))


def _answer(p: Pass, run: Run, name: str, message: str) -> None:
    """Keep the answer of a constraint: the violation, or nothing if it is met."""
    if run.state is not State.CONDITION_RUNNING or name in run.guarded.answers:
        return
    p.set_facet(run, constraints=replace(run.guarded, answers={**run.guarded.answers, name: message}))
    proceed(p, run)


def proceed(p: Pass, run: Run) -> None:
    """Judge a run once all answers are there. A held run stays as it is until it is released."""
    if not run.is_held and not _missing(p.state, run):
        _judge(p, run)


def _unanswered(p: Pass, run: Run, name: str, on_error: g.OnHookError, why: str) -> None:
    """Follow `on_error` of a constraint that cannot be checked."""
    reason = f"{name} cannot be checked: {why}"[:LONGEST_MESSAGE]
    violate(p, run, name, f"cannot be checked: {why}"[:LONGEST_MESSAGE])
    if on_error is g.OnHookError.ALLOW:
        _answer(p, run, name, "")
    else:
        _end(p, run, on_error, reason)


def _end(p: Pass, run: Run, on_error: g.OnHookError, reason: str) -> None:
    if on_error is g.OnHookError.SKIP:
        _skip(p, run, reason)
    elif on_error is g.OnHookError.ALLOW:
        _clear(p, run, f"allowed to start although {reason}")
    else:
        run.error = reason
        p.move(run, State.FAILED, reason)


def previous_read(p: Pass, run: Run, answer: tuple[str, State, bool] | None) -> None:
    """Judge the previous run: its id, its state, and whether it has ended."""
    retry_of = None if run.facets is None or run.facets.retry_of is None else run.facets.retry_of.run_id
    message = ""
    if answer is not None and answer[0] != retry_of:
        run_id, state, has_ended = answer
        if not has_ended:
            message = f"the previous run {run_id} has not ended ({state})"
        elif state is not State.SUCCEEDED:
            message = f"the previous run {run_id} ended as {state}"
    _answer(p, run, g.PREVIOUS, message)


def hook_answered(p: Pass, run: Run, answer: tuple[int | None, str]) -> None:
    status, why = answer
    if run.state is State.TERMINATING:
        _finish(p, run, status, why)
    elif status is None:
        _unanswered(p, run, g.PRE_HOOK, g.OnHookError(hook_of(p, run, g.PRE_HOOK).on_error), why)
    else:
        _answer(p, run, g.PRE_HOOK, "" if status in GOOD else f"answered {status}")


def _finish(p: Pass, run: Run, status: int | None, why: str) -> None:
    """End a run whose work is done, as the hook after it says."""
    message = "" if status in GOOD else f"cannot be called: {why}" if status is None else f"answered {status}"
    if message:
        violate(p, run, g.POST_HOOK, message)
    if not message or (status is None and hook_of(p, run, g.POST_HOOK).on_error != g.OnHookError.FAIL):
        p.move(run, State.SUCCEEDED, "done")
        output.scan_later(p, run)
        return
    run.outcome, run.result, run.error = Outcome.FAILED, None, f"{g.POST_HOOK} {message}"
    p.touch(run)
    p.move(run, State.FAILED, run.error)


def _judge(p: Pass, run: Run) -> None:
    """Clear a run that violates nothing, or act."""
    job, names = p.state.job_of(run), _names(p.state, run)
    constraints = job.constraints
    found = [(name, message) for name, message in run.guarded.answers.items() if message]
    if g.WINDOW in names and p.now - run.scheduled_at > checked(constraints.catch_up_window):
        window = brief(checked(constraints.catch_up_window))
        found.append((g.WINDOW, f"{brief(p.now - run.scheduled_at)} late, {window} allowed"))
    holding, most = guard_of(p.state, run.job_id).holding, constraints.max_concurrent_runs
    if g.MAX_CONCURRENT in names and most is not None and len(holding) >= most:
        found.append((g.MAX_CONCURRENT, f"{len(holding):,} live, {most:,} allowed"))
    if not found:
        _clear(p, run, "all constraints are met")
        return
    for name, message in found:
        violate(p, run, name, message)
    guarded = run.guarded
    p.move(run, State.ACTION_PENDING, _why(run))
    since = p.now if guarded.since is None else guarded.since
    actions, is_only_full = job.actions("on_constraint_violation"), [name for name, _ in found] == [g.MAX_CONCURRENT]
    decision = actions[-1].decision if actions else g.WAIT if is_only_full else g.SKIP
    p.set_facet(run, constraints=replace(guarded, asked={}, since=since, decision=decision))
    p.move(run, State.ACTION_RUNNING, ", then ".join([*(action.action for action in _informing(job)), decision.action]))
    _act(p, run)


def _informing(job: Job) -> list[g.Action]:
    """Return the actions of a violation that decide nothing."""
    return [action for action in job.actions("on_constraint_violation") if action.action in g.INFORM]


def _act(p: Pass, run: Run) -> None:
    """Carry out the actions of a violation one after the other, the decision last."""
    actions = _informing(p.state.job_of(run))
    while (step := run.guarded.step) < len(actions):
        action = actions[step]
        try:
            called = notify(p, run, action, "violated", step, ACTION)
        except ActionFailed as error:
            _failed(p, run, g.OnHookError(action.on_error), f"{action.action} failed: {error}")
            return
        guarded = run.guarded
        asked = {} if called is None else {ACTION: called.id}
        p.set_facet(run, constraints=replace(guarded, actions=guarded.actions + 1, step=step + 1, asked=asked))
        if called is not None:
            return
    guarded = run.guarded
    p.set_facet(run, constraints=replace(guarded, actions=guarded.actions + 1, asked={}))
    decision = guarded.decision
    assert decision is not None
    if decision.action is g.ActionKind.SKIP:
        _skip(p, run, _why(run))
    else:
        refused = park(p, run, decision)
        if isinstance(refused, Overtaken):
            _skip(p, run, str(refused))
        elif refused is not None:
            _failed(p, run, g.OnHookError(decision.on_error), str(refused))


def _why(run: Run) -> str:
    """Return the violations of the latest check, in words."""
    latest = [violation for violation in run.guarded.violations if violation.at == run.guarded.violations[-1].at]
    return "; ".join(f"{violation.constraint}: {violation.message}" for violation in latest)[:LONGEST_MESSAGE]


def _failed(p: Pass, run: Run, on_error: g.OnHookError, why: str) -> None:
    """Follow `on_error` of an action that failed."""
    guarded = run.guarded
    p.set_facet(run, constraints=replace(guarded, failed=guarded.failed + 1))
    violate(p, run, ACTION, why[:LONGEST_MESSAGE], count=0)
    _end(p, run, on_error, why[:LONGEST_MESSAGE])


def _skip(p: Pass, run: Run, reason: str) -> None:
    if run.state is State.CONDITION_RUNNING:
        p.move(run, State.ACTION_PENDING, reason)
        p.move(run, State.ACTION_RUNNING, str(g.ActionKind.SKIP))
    p.move(run, State.SKIPPED, reason)


def _clear(p: Pass, run: Run, reason: str) -> None:
    """Give a run its place, and let it go on."""
    guard = guard_of(p.state, run.job_id)
    guard.drop(run)
    guard.holding[run.id] = run
    run.due_at = None
    cleared = replace(run.guarded, cleared=True, answers={}, asked={}, decision=None, step=0, since=None)
    p.set_facet(run, constraints=cleared)
    admit(p, run, reason)


def check_again(p: Pass, run: Run) -> None:
    """Check the constraints of a waiting run again; `_park` ends a wait that has reached its limit."""
    if waits(run):
        guard_of(p.state, run.job_id).wake(run)
        run.due_at = None
        p.move(run, State.CONDITION_PENDING, "constraints are checked again")
        _check(p, run)


def settle(p: Pass, ended: list[Run]) -> None:
    """Act on runs that have ended: actions of their own, answers to others, places that are free."""
    versions, guards = p.state.versions, p.state.of(Guards)
    for run in ended:
        job = versions[run.job_version]
        if (job.on_success or job.on_failure) and run.state in EVENTS:
            inform_all(p, run, *EVENTS[run.state])
        if (facets := run.facets) is not None:
            if facets.output is not None:
                output.end_unscanned(p, run)
            if facets.constraints is not None or facets.caused_by is not None:
                _answer_caller(p, run)
        if guards and (guard := guards.get(run.job_id)) is not None:
            guard.drop(run)
            guards.freed[run.job_id] = None
    while guards.freed:
        for run in ready_runs(p.state, guards[guards.freed.popitem()[0]]):
            check_again(p, run)


@for_special_runs
def give_up_place(p: Pass, run: Run) -> None:
    """Let others of its job pass a run that is held, or that is judged again and has never begun."""
    if run.facets is not None and run.guarded.cleared and (run.is_held or not run.may_have_begun):
        guards = p.state.of(Guards)
        guards[run.job_id].drop(run)
        guards.freed[run.job_id] = None
        p.set_facet(run, constraints=replace(run.guarded, cleared=False))


def _answer_caller(p: Pass, run: Run) -> None:
    """Answer the run that called this run, and end the runs that this run called."""
    for run_id in run.guarded.asked.values():
        if (called := p.state.runs.get(run_id)) is not None:
            cancel_run(p, called, f"run {run.id}, which called it, has ended", "scheduler")
    if run.guarded.asked or run.guarded.answers:
        p.set_facet(run, constraints=replace(run.guarded, asked={}, answers={}))
    caused_by = None if run.facets is None else run.facets.caused_by
    caller = None if caused_by is None else p.state.runs.get(caused_by.run_id)
    if caused_by is None or caller is None or caller.guarded.asked.get(caused_by.check) != run.id:
        return
    message, fault = _found_by(run)
    if caused_by.check != ACTION:
        if fault:
            on_error = _checks(p.state, caller)[caused_by.check].on_error
            _unanswered(p, caller, caused_by.check, g.OnHookError(on_error), fault)
        else:
            _answer(p, caller, caused_by.check, message)
    elif run.state is State.SUCCEEDED:
        p.set_facet(caller, constraints=replace(caller.guarded, asked={}))
        _act(p, caller)
    else:
        action = _informing(p.state.job_of(caller))[caller.guarded.step - 1]
        why = f"call of {action.job} failed: run {run.id} ended as {run.state} ({run.reason})"
        _failed(p, caller, g.OnHookError(action.on_error), why)


def _found_by(run: Run) -> tuple[str, str]:
    """Return the violation that the run of a check found, or why it could not check."""
    if run.state is not State.SUCCEEDED:
        return "", f"run {run.id} ended as {run.state} ({run.reason})"
    found = None if run.result is None else msgspec.json.decode(run.result)
    if found is None or isinstance(found, bool):
        return "" if found in (None, True) else "the check returned false", ""
    if isinstance(found, str):
        return found[:LONGEST_MESSAGE], ""
    return "", f"run {run.id} returned {str(found)[:100]}; a check must return true, false, null or a string"


def late(p: Pass, run: Run, kind: str) -> None:
    """Mark a run that takes longer than expected."""
    expected = p.state.job_of(run).constraints.max_expected_run_time
    if expected is None or run.guarded.late or run.state is State.TERMINATING:
        return
    p.set_facet(run, constraints=replace(run.guarded, late=True))
    violate(p, run, g.EXPECTED, f"still running after {span(checked(expected))}")
    inform_all(p, run, "on_late", "late")


def explain(state: SchedulerState, run: Run, now: Now) -> Iterator[Reason]:
    """Explain a wait for the answer to a constraint, or because one is violated."""
    guarded, kind = run.guarded, ReasonKind.CONSTRAINT
    if run.state is State.TERMINATING and not output.waits_for_scan(run):
        text = f"has finished its work and waits for {g.POST_HOOK} to answer"
        yield Reason(kind=kind, text=text, name=g.POST_HOOK, since=run.changed_at)
    elif run.state is State.CONDITION_RUNNING:
        for name in _missing(state, run):
            runs = [guarded.asked[name]] if name in guarded.asked else []
            by = f" by run {runs[0]}" if runs else ""
            yield Reason(kind=kind, text=f"waits for {name} to be checked{by}", name=name, runs=runs)
    elif run.state is State.ACTION_RUNNING and guarded.decision is not None:
        yield explain_wait(state, run, guarded.decision, now)
