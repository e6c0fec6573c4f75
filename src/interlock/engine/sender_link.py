"""The scheduler's side of its sender: hand it hooks, tell it about deliveries, and take its answers."""

from collections.abc import Callable, Iterable

from interlock.core.effects import PendingEffects
from interlock.engine.present import Present
from interlock.model.run import Run
from interlock.wire import delivery_request as d
from interlock.wire.command import Answered
from interlock.wire.effect import CallHook
from interlock.wire.request import ValueAnswer


class SenderLink:
    def __init__(self, present: Present, on_needed: Callable[[], None]) -> None:
        """`on_needed` is called whenever there is something to send, and no sender."""
        self._present = present
        self._tell = present.peers.tell
        self._on_needed = on_needed
        self._name: str | None = None  # the client that sends
        self._asked: dict[str, CallHook] = {}  # run → its hook without an answer

    def register(self, name: str, message: d.BecomeSender) -> ValueAnswer:
        """Make this client the sender, and ask it for everything that is pending."""
        self._name = name
        self._asked.clear()
        for effect in self._present.state.of(PendingEffects).pending:
            if isinstance(effect, CallHook):
                self.call(effect)
        return ValueAnswer(message.request)

    def gone(self, name: str) -> None:
        if self._name == name:
            self._name = None

    def call(self, effect: CallHook) -> None:
        """Call a hook. Without a sender nothing happens; the core asks again."""
        if self._name is None:
            self._on_needed()
        else:
            self._asked[effect.run_id] = effect
            self._tell(self._name, d.HookRequest(effect.run_id, effect.seq, effect.id, effect.outgoing))

    def answered(self, answer: d.HookAnswered) -> None:
        effect = self._asked.get(answer.run_id)
        if effect is not None and effect.seq == answer.seq:
            del self._asked[answer.run_id]
            self._present.inbox.post("", Answered([(effect, (answer.status, answer.error))]))

    def forget(self, ended: Iterable[Run]) -> None:
        """Take back the hooks of runs that have ended."""
        for run in ended if self._asked else ():
            if self._asked.pop(run.id, None) is not None and self._name is not None:
                self._tell(self._name, d.ForgetHook(run.id))

    def note_owed(self) -> None:
        """Say that deliveries were stored."""
        if self._name is None:
            self._on_needed()
        else:
            self._tell(self._name, d.Owed())
