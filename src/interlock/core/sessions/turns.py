"""Sessions: runs with one key of a tenant are executed in order.

A cleared run waits here until its turn comes, and then in its lane. From its turn until it has ended it is active,
however often it is retried: so the runs of a serial session never overlap, and a cancelled one keeps its place until it
has really stopped.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from math import inf
from typing import Any

import msgspec

from interlock.core.attempts.settle import cancel_run, current
from interlock.core.facts import Snapshot
from interlock.core.lanes.fill import enqueue
from interlock.core.lanes.gate import session_rate
from interlock.core.part import for_special_runs
from interlock.core.routing.dispatch import line_key
from interlock.core.sessions.session import NOTHING, Session, SessionMemo, Sessions, collapse, memo_name, read_memo
from interlock.core.state import WAIT, SchedulerState
from interlock.core.transition import Pass
from interlock.error import QueueFull
from interlock.fields.duration import span
from interlock.fields.safe_text import counted
from interlock.model.explanation import MOST_NAMED, Reason, ReasonKind
from interlock.model.facets import SessionFacet
from interlock.model.job import Job
from interlock.model.run import Now, Run
from interlock.model.session import Drop, Mode, SessionOptions, effective
from interlock.model.state import GUARDED, State
from interlock.wire.message import Usage
from interlock.wire.request import NewRun

DROPPED, FULL, STALE = "queue_dropped", "queue_full", "message_stale"
INTERRUPTED = "interrupted by a later run"
NOT_GIVEN = GUARDED | {State.PENDING, State.APPROVAL_REQUIRED, State.SCHEDULED}  # states before a worker has it


def options_of(
    state: SchedulerState, name: str, memo: SessionMemo, job: Job, given: dict[str, Any] | None
) -> SessionOptions:
    return effective(state.limits.session_patterns, job.sessions, memo.override, given, name)


def check_room(p: Pass, new: NewRun, coming: dict[tuple[str, str], int]) -> None:
    """Refuse a run that is due now if its session is full and drops new ones."""
    if new.session is None or new.at is not None or new.delay:
        return
    key = new.tenant, new.session
    session = p.state.of(Sessions).get(key)
    memo = read_memo(p.memo(memo_name(*key))) if session is None else session.memo
    options = options_of(p.state, new.session, memo, p.state.jobs[new.job_id], new.session_options)
    if options.drop is Drop.OLD or options.mode is Mode.INTERRUPT:
        return
    session = session or Session(*key, memo)
    collector = session.collecting(p.elapsed)
    before = coming.get(key, 0)
    joins = before > 0 and options.debounce > 0 if collector is None else collector.job_id == new.job_id
    if joins:
        return
    coming[key] = before + 1
    ahead = max(0, session.room_for(options.max_concurrent)) if options.debounce == 0 else 0
    if len(session.waiting) + coming[key] - ahead > options.cap:
        raise QueueFull(new.session, options.cap)


def queue(p: Pass, run: Run) -> None:
    """Let a cleared run wait for its turn in its session, or in its lane if it has had its turn."""
    session, facet = p.state.of(Sessions)[run.tenant, str(run.session)], run.session_facet
    if facet.detached or run.id in session.active:
        enqueue(p.state, run)
    elif run.id in session.waiting:
        if run is session.collecting(p.elapsed):
            _open_window(p, session, run, session.window - p.elapsed)  # it ended when the run was held or judged again
        proceed(p, session)
    else:
        session.waiting[run.id] = run
        session.arrivals += 1
        p.set_facet(run, session=msgspec.structs.replace(facet, place=session.arrivals))
        if _is_stale(p, session, run, facet):
            cancel_run(p, run, STALE, "scheduler")
        else:
            _arrive(p, session, run, facet)


def _is_stale(p: Pass, session: Session, run: Run, facet: SessionFacet) -> bool:
    """Return whether a run was sent before its session was stopped. The first that was not ends the cutoff."""
    if session.memo.cutoff:
        # A new run without a stamp is sent now, even if the clock was set back since the stop.
        created_at = inf if run.id in p.created else run.created_at
        if (created_at if facet.stamp is None else facet.stamp) < session.memo.cutoff:
            return True
        note(p, session, cutoff=0.0)
    return False


def _arrive(p: Pass, session: Session, run: Run, facet: SessionFacet) -> None:
    """Let a run wait as the last of its session, or join it to the run before. Another run may give way to it."""
    if facet.options:
        note(p, session, override={**(session.memo.override or {}), **facet.options})
    options = options_of(p.state, session.name, session.memo, p.state.job_of(run), facet.options)
    session.most = options.max_concurrent
    _set_rate(p.state, session, options)
    if options.mode is Mode.INTERRUPT:
        session.collector = None
        for other in [*session.not_ended(), *session.waiting.values()]:
            # A run that its constraints held up interrupts none that came after it.
            if other is not run and other.created_at <= run.created_at:
                cancel_run(p, other, INTERRUPTED, "scheduler")
    elif (collector := session.collecting(p.elapsed)) is not None and collapse(p, collector, run):
        _open_window(p, session, collector, options.debounce)
    else:
        session.collector = None
        if options.debounce:
            _open_window(p, session, run, options.debounce)
    proceed(p, session)
    if len(session.waiting) > options.cap:
        oldest = next(iter(session.waiting.values()))
        cancel_run(p, *((run, FULL) if options.drop is Drop.NEW else (oldest, DROPPED)), "scheduler")


def _set_rate(state: SchedulerState, session: Session, options: SessionOptions) -> None:
    """Let the new rate count for runs that wait for the one before, too."""
    rate = None if options.rate is None else (options.rate, options.burst)
    if rate != session.rate:
        session.rate = rate
        gate = state.gates.get(session_rate(session.tenant, session.name))
        if gate is not None and rate is not None:
            state.gates.open[gate.name] = state.gates.rate(gate.name, *rate)
        elif gate is not None:
            gate.let_try(state, len(gate.parked))


def _open_window(p: Pass, session: Session, run: Run, debounce: float) -> None:
    session.collector, session.window = run, p.elapsed + debounce
    run.due_at = p.now + debounce
    p.touch(run)
    p.state.set_span(session.window, run, WAIT)


def end_window(p: Pass, run: Run) -> None:
    """Let a run proceed that has collected others, unless another arrival has made the time longer."""
    proceed(p, p.state.of(Sessions)[run.tenant, str(run.session)])


def proceed(p: Pass, session: Session) -> None:
    """Give their turn to as many waiting runs as may be active."""
    for run in give_turns(p.state, session, p.elapsed):
        if run.due_at is not None:
            run.due_at = None
            p.touch(run)
        if run.session_facet.stepped_back:
            p.set_facet(run, session=msgspec.structs.replace(run.session_facet, stepped_back=False))


def _comes_back(run: Run) -> bool:
    """Return whether a run is being judged again, and so keeps its place: its verdict comes soon."""
    return run.state is State.PENDING and not run.is_deferred


def give_turns(state: SchedulerState, session: Session, elapsed: float) -> Iterator[Run]:
    while session.waiting and session.room > 0 and not session.memo.paused:
        for run in session.waiting.values():
            if run.state is State.SCHEDULED:
                break
            if _comes_back(run):
                return
        else:
            return
        if run is session.collector and elapsed < session.window:
            return
        del session.waiting[run.id]
        if run is session.collector:
            session.collector = None
        session.active[run.id] = run
        enqueue(state, run)
        yield run


def explain(state: SchedulerState, run: Run, now: Now) -> Iterator[Reason]:
    """Explain why a cleared run has not had its turn."""
    session = state.of(Sessions).of(run)
    if session is None or run.state is not State.SCHEDULED or run.id not in session.waiting:
        return
    ready = [
        waiting for waiting in session.waiting.values() if waiting.state is State.SCHEDULED or _comes_back(waiting)
    ]
    place = ready.index(run) + 1
    if session.memo.paused:
        yield Reason(kind=ReasonKind.SESSION_PAUSED, text=f"waits: session {session.name} is paused", name=session.name)
    if session.room <= 0 or place > 1:
        used, window = session.memo.usage
        most = session.room + len(session.active)
        narrow = f" because {used:,} of {window:,} are used" if most < session.most else ""
        behind = f", {counted(place - 1, 'run')} ahead of it" if place > 1 else ""
        yield Reason(
            kind=ReasonKind.SESSION_TURN,
            text=f"waits for its turn in session {session.name}: {len(session.active):,} active, {most:,} allowed"
            f"{narrow}{behind}",
            name=session.name,
            place=place,
            ahead=[other.id for other in ready[: min(place - 1, MOST_NAMED)]],
            holders=list(session.active)[:MOST_NAMED],
        )
    if run is session.collector and now.elapsed < session.window:
        left = session.window - now.elapsed
        text = f"collects further runs of session {session.name} for {span(left)}"
        yield Reason(kind=ReasonKind.DEBOUNCE, text=text, name=session.name, at=now.wall + left)


@for_special_runs
def begin(p: Pass, run: Run) -> None:
    if run.session is not None:
        p.state.of(Sessions).open(run.tenant, run.session, p.memo).live += 1


@for_special_runs
def stop_waiting(p: Pass, run: Run) -> None:
    if run.session is not None:
        p.state.of(Sessions)[run.tenant, run.session].waiting.pop(run.id, None)


def settle(p: Pass, ended: list[Run]) -> None:
    """Take the runs that have ended out of their sessions, and let others proceed."""
    sessions = p.state.of(Sessions)
    while sessions.stepping_back:
        _step_back(p, sessions.stepping_back.pop())
    for run in ended:
        if run.session is None or (session := sessions.of(run)) is None:
            continue
        session.live -= 1
        session.active.pop(run.id, None)
        if session.collector is run:
            session.collector = None
        proceed(p, session)
        if not session.live:
            del sessions[run.tenant, session.name]


def let_others_pass(p: Pass, run: Run) -> None:
    """Let others of its session proceed past a run that has to wait and has not begun."""
    if run.session is not None and not run.may_have_begun:
        p.state.of(Sessions).stepping_back.append(run)


def _step_back(p: Pass, run: Run) -> None:
    """Let others of its session proceed past a run that waits for a person, the policy or its constraints. If its turn
    has come, it gives that away, except while its constraints are being checked."""
    session = p.state.of(Sessions).of(run)
    gives_up = run.state in (State.PENDING, State.APPROVAL_REQUIRED, State.ACTION_RUNNING)
    if session is not None and (gives_up or run.state is State.CONDITION_RUNNING):
        if gives_up and run.id in session.active:
            _wait_again(session, run)
            p.set_facet(run, session=msgspec.structs.replace(run.session_facet, stepped_back=True))
        proceed(p, session)


def note(p: Pass, session: Session, **changes: Any) -> None:
    session.memo = msgspec.structs.replace(session.memo, **changes)
    name = memo_name(session.tenant, session.name)
    p.keep_memo(name, None if session.memo == NOTHING else msgspec.json.encode(session.memo))
    p.state.of(Sessions).has_memos = True


def note_usage(p: Pass, worker_id: str, message: Usage) -> None:
    """Note how much of its window a session has used. Once it is busy, runs that have had their turn and never began
    wait for it again; once it is not, others proceed."""
    attempt = current(p, worker_id, message.run_id, message.fence)
    run = None if attempt is None else attempt.run
    if run is None or run.session is None or run.session_facet.detached:
        return
    session = p.state.of(Sessions)[run.tenant, run.session]
    usage = (message.tokens, message.window) if message.window else NOTHING.usage
    if usage != session.memo.usage:
        note(p, session, usage=usage)
        # Those that are judged again are among them.
        not_given = [run for run in session.active.values() if run.state in NOT_GIVEN and not run.attempt]
        for active in reversed(not_given):
            if session.room < 0:
                if active.state is State.SCHEDULED:
                    p.state.lanes.mark_startable(active.lane).remove(line_key(p.state, active), active)
                _wait_again(session, active)
        proceed(p, session)


def _wait_again(session: Session, run: Run) -> None:
    """Let an active run wait as the first of its session."""
    del session.active[run.id]
    session.waiting[run.id] = run
    session.waiting.move_to_end(run.id, last=False)


def open_all(state: SchedulerState, snapshot: Snapshot, now: Now) -> None:
    """Make the sessions of the stored runs, with those that have had their turn for certain, and those that wait."""
    state.of(Sessions).has_memos = snapshot.has_session_memos
    for run in snapshot.runs:
        session = _join(state, run, snapshot.memos.get)
        if session is not None and run.session_facet.place == session.arrivals:
            options = options_of(state, session.name, session.memo, state.job_of(run), run.session_facet.options)
            session.most = options.max_concurrent
            _set_rate(state, session, options)
    for session in state.of(Sessions).values():
        if not session.waiting:
            continue
        _sort(session)
        last = next(reversed(session.waiting.values()))
        if last.due_at is not None and last.state is State.SCHEDULED:
            options = options_of(state, session.name, session.memo, state.job_of(last), last.session_facet.options)
            left = min(max(0.0, last.due_at - now.wall), options.debounce)
            session.collector, session.window = last, now.elapsed + left
            state.set_span(session.window, last, WAIT)


def adopt(state: SchedulerState, run: Run, stored: Callable[[str], bytes | None]) -> None:
    """Put one stored run that memory does not have into its session."""
    if (session := _join(state, run, stored)) is not None:
        _sort(session)


def _join(state: SchedulerState, run: Run, stored: Callable[[str], bytes | None]) -> Session | None:
    """Add a stored run to its session; return that if the run has a place in it."""
    if run.session is None:
        return None
    session, facet = state.of(Sessions).open(run.tenant, run.session, stored), run.session_facet
    session.live += 1
    if facet.detached or not facet.place:
        return None
    session.arrivals = max(session.arrivals, facet.place)
    (session.active if had_turn(run) else session.waiting)[run.id] = run
    return session


def _sort(session: Session) -> None:
    """Let the runs wait in the order of their places."""
    waiting = sorted(session.waiting.values(), key=lambda run: run.session_facet.place)
    session.waiting = OrderedDict((run.id, run) for run in waiting)


def had_turn(run: Run) -> bool:
    """Return whether the turn of a stored run has come for certain. One that waits for its first attempt may be in its
    lane or in its session; a start decides anew."""
    return run.state not in NOT_GIVEN or (run.attempt > 0 and not run.session_facet.stepped_back)


def place(state: SchedulerState, run: Run, now: Now) -> None:
    """Put a stored run that is cleared back into its lane, or let its session go on."""
    session = None if run.session is None else state.of(Sessions)[run.tenant, run.session]
    if session is None or run.session_facet.detached or had_turn(run):
        enqueue(state, run)
    else:
        for turn in give_turns(state, session, now.elapsed):
            turn.due_at = None  # its time to collect others is over, whatever the wall clock says now
