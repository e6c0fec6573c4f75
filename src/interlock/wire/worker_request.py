"""Operations on workers."""

from typing import Annotated, ClassVar

from interlock.error import WrongStatus
from interlock.fields.field import doc
from interlock.model.pool import PoolList, WorkerAction, WorkerInfo, WorkerList
from interlock.wire.operation import Http, Order, Question
from interlock.wire.parameter import NameText


class AskWorkers(Question[WorkerList], frozen=True):
    """List workers. Workers by pool and id, with their state and load; also those that are away, but have runs or were
    drained."""

    pool: Annotated[NameText | None, doc("Only workers of this pool.")] = None

    http: ClassVar = Http("workers", "GET /workers", every_tenant="workers")


class AskPools(Question[PoolList], frozen=True):
    """List pools. Pools that are declared or have workers, with their topics, workers and runs."""

    http: ClassVar = Http("pools", "GET /pools", "workers", every_tenant="pools")


class AskWorker(Question[WorkerInfo], frozen=True):
    """Show a worker."""

    worker_id: str

    http: ClassVar = Http("worker", "GET /workers/{worker_id}", every_tenant="workers")


class ActOnWorker(Order[WorkerInfo], frozen=True):
    worker_id: str
    action: WorkerAction

    http: ClassVar = Http(
        "{action}_worker",
        "POST /workers/{worker_id}/{action}",
        every_tenant="workers",
        raises=(WrongStatus,),
        actions={
            WorkerAction.DRAIN: "Drain a worker. It gets nothing new until it is resumed, and finishes what it has. "
            "This outlasts broken links and restarts of the scheduler.",
            WorkerAction.RESUME: "Resume a worker. A drained worker gets runs again. One that is leaving cannot be "
            "resumed (`wrong_status`).",
            WorkerAction.REMOVE: "Remove a worker. A connected worker finishes its runs and leaves: the answer has the "
            "state `draining`. One that is `away` is forgotten, and its runs are retried elsewhere. A worker of "
            "`interlock up` is started again; stop it as a service instead.",
        },
    )
