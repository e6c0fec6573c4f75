"""What a person does with a session: stop, reset, pause and resume it."""

from collections.abc import Callable
from functools import partial

import msgspec

from interlock.core.attempts.settle import cancel_run
from interlock.core.facts import Needs
from interlock.core.guards.job_guard import Guards
from interlock.core.policy.judge_state import Judging
from interlock.core.sessions.session import NOTHING, Session, Sessions, memo_name, session_info
from interlock.core.sessions.turns import note, proceed
from interlock.core.state import SchedulerState
from interlock.core.transition import Pass
from interlock.fields.field import copy_fields
from interlock.model.record import Memo
from interlock.model.run import Run
from interlock.model.session import SessionAction, check_key
from interlock.model.session_info import ActedOnSession, SessionEvent
from interlock.wire.new_run import check_name
from interlock.wire.request import ValueAnswer
from interlock.wire.session_request import ActOnSession

CLEARED = "lane_cleared"


def act_needs(state: SchedulerState, command: ActOnSession, needs: Needs) -> None:
    if state.of(Sessions).has_memos and command.key not in state.of(Sessions):
        needs.records[Memo, memo_name(*command.key)] = None


def act(p: Pass, origin: str, command: ActOnSession) -> None:
    check_key("session", command.session)
    check_name(command.key[0], "tenant")
    session = p.state.of(Sessions).open(*command.key, p.memo)
    before, actor = session.memo, command.actor or origin
    acted = _ACTIONS[command.action](p, session, actor)
    shown = session_info(p.state, session, p.now)
    p.answers.append((origin, ValueAnswer(command.request, ActedOnSession(acted=acted, session=shown))))
    if acted or session.memo != before:
        p.announce(copy_fields(SessionEvent, command, tenant=session.tenant, at=p.now, actor=actor, after=shown))
    if not session.live:
        del p.state.of(Sessions)[command.key]


def _stop(p: Pass, session: Session, actor: str) -> bool:
    oldest = next(iter(session.not_ended()), None)
    return oldest is not None and cancel_run(p, oldest, "stopped", actor)


def _stop_all(p: Pass, session: Session, actor: str) -> bool:
    runs = [*session.not_ended(), *session.waiting.values(), *_kept_back(p, session)]
    note(p, session, cutoff=p.now)
    for run in runs:
        cancel_run(p, run, "stopped", actor)
    return bool(runs)


def _kept_back(p: Pass, session: Session) -> list[Run]:
    """Return the runs that have not arrived in their session: the policy, a person or constraints keep them back."""
    state, key = p.state, (session.tenant, session.name)
    guarded = (run for guard in state.of(Guards).values() for run in guard.pending.values() if not run.guarded.cleared)
    kept = (*guarded, *state.of(Judging).awaiting_approval.values(), *state.of(Judging).deferred.values())
    arrived = {*session.waiting, *session.active}
    return [run for run in kept if (run.tenant, run.session) == key and run.id not in arrived]


def _reset(p: Pass, session: Session, actor: str) -> bool:
    """Begin a new generation: waiting runs end, active ones no longer belong to it, and nothing is used."""
    note(p, session, generation=session.memo.generation + 1, usage=NOTHING.usage)
    for run in [*session.waiting.values(), *_kept_back(p, session)]:
        cancel_run(p, run, CLEARED, actor)
    for run in session.not_ended():
        p.set_facet(run, session=msgspec.structs.replace(run.session_facet, detached=True))
    session.active.clear()
    return True


def _set_paused(paused: bool, p: Pass, session: Session, actor: str) -> bool:
    changed = session.memo.paused is not paused
    note(p, session, paused=paused)
    proceed(p, session)
    return changed


_ACTIONS: dict[SessionAction, Callable[[Pass, Session, str], bool]] = {
    SessionAction.STOP: _stop,
    SessionAction.STOP_ALL: _stop_all,
    SessionAction.RESET: _reset,
    SessionAction.PAUSE: partial(_set_paused, True),
    SessionAction.RESUME: partial(_set_paused, False),
}
