"""Requests about workers, each with its answer, as those in `request.py`."""

from interlock.model.worker_info import WorkerAction, WorkerInfo, WorkerList
from interlock.wire.request import ChangeRequest, Request


class AskWorkers(Request[WorkerList], frozen=True):
    """Ask for the workers of a pool, or for all."""

    pool: str | None = None


class AskWorker(Request[WorkerInfo], frozen=True):
    worker_id: str


class ActOnWorker(ChangeRequest[WorkerInfo], frozen=True):
    worker_id: str
    action: WorkerAction
    actor: str = ""
