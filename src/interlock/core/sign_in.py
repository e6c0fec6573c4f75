"""The key that signs the sessions of browsers. A gateway proposes one, because the core draws no secrets; the first one
stays, so that all gateways of a store accept the same sessions, after a restart too."""

from interlock.core.facts import Needs
from interlock.core.part import Part
from interlock.core.state import SchedulerState
from interlock.core.transition import Pass
from interlock.model.record import Memo
from interlock.wire.request import ValueAnswer
from interlock.wire.sign_in_request import KEY_MEMO, KeepKey


def needs_key(state: SchedulerState, command: KeepKey, needs: Needs) -> None:
    needs.records[Memo, KEY_MEMO] = None


def keep_key(p: Pass, origin: str, command: KeepKey) -> None:
    kept = p.memo(KEY_MEMO)
    if kept is None:
        kept = command.key.encode()
        p.keep_memo(KEY_MEMO, kept)
    p.answers.append((origin, ValueAnswer(command.request, kept.decode())))


SIGN_IN = Part(name="sign_in", handlers={KeepKey: keep_key}, needs={KeepKey: needs_key})
