"""Delivery after the commit: messages to workers, effects, answers, metrics and logs."""

from collections.abc import Sequence

from msgspec.structs import force_setattr

from interlock.core.decisions import Decisions, Defined, Failed
from interlock.core.step import Command
from interlock.engine import logs
from interlock.engine.declarations import Declarations
from interlock.engine.effects import Effects
from interlock.engine.links import Links
from interlock.engine.present import Present
from interlock.engine.requests import Requests
from interlock.engine.sender_link import SenderLink
from interlock.engine.service_book import ServiceBook
from interlock.error import InterlockError, StoreUnavailable
from interlock.wire.command import Create, HandedOver, NoteServices, WorkerUp
from interlock.wire.message import Dispatch, Message, Returned


class Delivery:
    def __init__(
        self,
        present: Present,
        links: Links,
        requests: Requests,
        sender: SenderLink,
        effects: Effects,
        declarations: Declarations,
        book: ServiceBook,
    ) -> None:
        self._present = present
        self._links = links
        self._requests = requests
        self._sender = sender
        self._effects = effects
        self._declarations = declarations
        self._book = book
        self._sent: list[Command] = []

    def take_sent(self) -> list[Command]:
        """Return the dispatches sent since the last pass, for the next pass; they do not cause one."""
        sent, self._sent = self._sent, []
        return sent

    def deliver(self, decisions: Decisions, commands: Sequence[Command], seconds: float) -> None:
        """Carry out decisions whose commit took `seconds`."""
        for _, content in commands:
            if type(content) is WorkerUp:
                self._present.peers.joined(content)
        self._send(decisions)
        if decisions.effects:
            self._effects.begin(decisions.effects)
        self._answer(decisions)
        self._present.metrics.add(decisions, seconds)
        logs.write(decisions)
        self._requests.announce(decisions.ended)
        if decisions.batch.deliveries:
            self._sender.note_owed()
        self._sender.forget(decisions.ended)
        if decisions.batch.kept or decisions.batch.service_log:
            for _, content in commands:
                if type(content) is NoteServices:
                    self._book.noted(content)
        if decisions.batch or decisions.progressed:
            self._requests.news(self._present.stored, list(decisions.progressed.values()))
        self._links.relieve()

    def _send(self, decisions: Decisions) -> None:
        out, elapsed = {}, self._present.elapsed()
        for worker_id, messages in decisions.sends.items():
            _shorten(messages, elapsed - decisions.elapsed)
            if self._present.peers.send_to_worker(worker_id, messages):
                out[worker_id] = messages
            else:
                for message in messages:
                    if type(message) is Dispatch:
                        gone = Returned(message.run_id, message.fence, "the worker left before it was sent")
                        self._present.inbox.post(worker_id, gone)
        if out:
            self._sent.append(("", HandedOver(out, elapsed)))

    def _answer(self, decisions: Decisions) -> None:
        for origin, answer in decisions.answers:
            if isinstance(answer, Defined):
                self._declarations.settle(answer.request, answer.difference)
            elif not isinstance(answer, Failed):
                self._present.peers.tell(origin, answer)
            else:
                self._refuse_one(origin, answer.request, answer.error)
                self._present.metrics.refused(answer.error.code)

    def refuse(self, commands: Sequence[Command], refusal: StoreUnavailable) -> None:
        """Answer these void commands with an error."""
        for origin, content in commands:
            request = getattr(content, "request", None)
            if request is not None:
                self._refuse_one(origin, request, refusal)
                if type(content) is Create:
                    self._present.metrics.refused(refusal.code)

    def _refuse_one(self, origin: str, request: int, error: InterlockError) -> None:
        if origin:
            self._requests.problem(origin, request, error)
        else:
            self._declarations.settle(request, error)


def _shorten(messages: Sequence[Message], passed: float) -> None:
    """Subtract the time since the decision from a dispatch's `hold`."""
    for message in messages:
        if type(message) is Dispatch and message.hold:
            force_setattr(message, "hold", max(0.0, message.hold - passed))
