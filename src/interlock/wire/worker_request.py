"""Requests about workers, each with its answer, as those in `request.py`."""

from interlock.model.worker_info import WorkerAction, WorkerInfo, WorkerList
from interlock.wire.request import Answer, Change, Request


class WorkersReport(Answer, frozen=True):
    found: WorkerList


class WorkerReport(Answer, frozen=True):
    worker: WorkerInfo


class AskWorkers(Request[WorkersReport], frozen=True):
    """Ask for the workers of a pool, or for all."""

    pool: str | None = None


class AskWorker(Request[WorkerReport], frozen=True):
    worker_id: str


class ActOnWorker(Change[WorkerReport], frozen=True):
    worker_id: str
    action: WorkerAction
    actor: str = ""
