"""Delivery after the commit: messages to workers, effects, answers, metrics and logs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import force_setattr

from interlock.core.decisions import Decisions, Defined, Failed
from interlock.core.step import Command
from interlock.engine import logs
from interlock.error import InterlockError, StoreUnavailable
from interlock.wire.command import Create, HandedOver, NoteServices, WorkerUp
from interlock.wire.message import Dispatch, Message, Returned

if TYPE_CHECKING:
    from interlock.engine.engine import Engine


class Handover:
    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._sent: list[Command] = []

    def take_sent(self) -> list[Command]:
        """Return the dispatches sent since the last pass, for the next pass; they do not cause one."""
        sent, self._sent = self._sent, []
        return sent

    def deliver(self, decisions: Decisions, commands: Sequence[Command], seconds: float, position: int) -> None:
        """Carry out decisions whose commit took `seconds`."""
        engine = self._engine
        for _, content in commands:
            if type(content) is WorkerUp:
                engine.links.joined(content)
        self._send(decisions)
        if decisions.effects:
            engine.effects.begin(decisions.effects)
        self._answer(decisions)
        engine.metrics.add(decisions, seconds)
        logs.write(decisions)
        engine.requests.announce(decisions.ended)
        if decisions.owed:
            engine.sender.note_owed()
        engine.sender.forget(decisions.ended)
        if decisions.batch.records or decisions.batch.service_log:
            for _, content in commands:
                if type(content) is NoteServices:
                    engine.on_noted(content)
        if decisions.batch or decisions.progressed:
            engine.requests.news(position, list(decisions.progressed.values()))
        engine.links.relieve()

    def _send(self, decisions: Decisions) -> None:
        out, elapsed = {}, self._engine.elapsed()
        for worker_id, messages in decisions.sends.items():
            _shorten(messages, elapsed - decisions.elapsed)
            if self._engine.links.send_to_worker(worker_id, messages):
                out[worker_id] = messages
            else:
                for one in messages:
                    if type(one) is Dispatch:
                        gone = Returned(one.run_id, one.fence, "the worker left before it was sent")
                        self._engine.post(worker_id, gone)
        if out:
            self._sent.append(("", HandedOver(out, elapsed)))

    def _answer(self, decisions: Decisions) -> None:
        for origin, answer in decisions.answers:
            if isinstance(answer, Defined):
                self._engine.declarations.settle(answer.request, answer.difference)
            elif not isinstance(answer, Failed):
                self._engine.links.tell(origin, answer)
            else:
                self._refuse_one(origin, answer.request, answer.error)
                self._engine.metrics.refused(answer.error.code)

    def refuse(self, commands: Sequence[Command], refusal: StoreUnavailable) -> None:
        """Answer these void commands with an error."""
        for origin, content in commands:
            request = getattr(content, "request", None)
            if request is not None:
                self._refuse_one(origin, request, refusal)
                if type(content) is Create:
                    self._engine.metrics.refused(refusal.code)

    def _refuse_one(self, origin: str, request: int, error: InterlockError) -> None:
        if origin:
            self._engine.requests.problem(origin, request, error)
        else:
            self._engine.declarations.settle(request, error)


def _shorten(messages: Sequence[Message], passed: float) -> None:
    """Subtract the time since the decision from a dispatch's `hold`."""
    for message in messages:
        if type(message) is Dispatch and message.hold:
            force_setattr(message, "hold", max(0.0, message.hold - passed))
