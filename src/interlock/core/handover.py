"""How a dispatched run reaches its worker: with its inputs, if they had to be read, and counted as out once it is."""

from interlock.core.hold import is_held
from interlock.core.routing import send
from interlock.core.settle import give_back
from interlock.core.transition import Pass
from interlock.model.command import HandedOver
from interlock.model.message import Dispatch
from interlock.model.run import Run


def inputs_read(p: Pass, run: Run, inputs: tuple[bytes, bytes | None]) -> None:
    worker = p.state.workers[str(run.worker_id)]
    if run.stop is not None or is_held(p, run):
        give_back(p, worker.attempts[run.id], "it was not sent to its worker yet")
    else:
        send(p, run, worker, *inputs)


def handed_over(p: Pass, origin: str, command: HandedOver) -> None:
    """These messages are out: from now on silence counts for the attempts they begin."""
    for worker_id, messages in command.sends.items():
        worker = p.state.workers.get(worker_id)
        attempts = {} if worker is None else worker.attempts
        for message in messages:
            if type(message) is Dispatch:
                attempt = attempts.get(message.run_id)
                if attempt is not None and attempt.run.fence == message.fence and not attempt.accepted:
                    attempt.heard = command.at
                    p.state.watch_silence(command.at)
