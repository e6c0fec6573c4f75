"""The way of a dispatch to its worker: after its inputs were read, if they had to be, and until it is sent."""

from interlock.core.routing import send
from interlock.core.settle import give_back
from interlock.core.transition import Pass
from interlock.model.command import HandedOver
from interlock.model.message import Dispatch
from interlock.model.run import Run


def inputs_read(p: Pass, run: Run, inputs: tuple[bytes, bytes | None]) -> None:
    worker = p.state.workers[str(run.worker_id)]
    if run.stop is not None or run.is_held:
        give_back(p, worker.attempts[run.id], "not yet sent to its worker")
    else:
        send(p, run, worker, *inputs)


def handed_over(p: Pass, origin: str, command: HandedOver) -> None:
    """Count silence from now on for the attempts that these messages begin."""
    for worker_id, messages in command.sends.items():
        worker = p.state.workers.get(worker_id)
        attempts = {} if worker is None else worker.attempts
        for message in messages:
            if type(message) is Dispatch:
                attempt = attempts.get(message.run_id)
                if attempt is not None and attempt.run.fence == message.fence and not attempt.accepted:
                    attempt.heard = command.at
                    p.state.watch_silence(command.at)
