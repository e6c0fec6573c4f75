"""The HTTP operations on workers, a part of the table in `operations.py`."""

from typing import Any

from interlock.error import WrongStatus
from interlock.interface import queries as q
from interlock.interface.operation import API, Operation
from interlock.model.worker_info import WorkerAction, WorkerInfo, WorkerList
from interlock.wire import worker_request as r

WORKER = f"{API}/workers/{{worker_id}}"

workers = Operation(
    f"GET {API}/workers",
    "List workers. Workers by pool and id, with their state and load; also those that are away, but have runs or were "
    "drained.",
    WorkerList,
    query=q.WorkersQuery,
    asks=r.AskWorkers,
    every_tenant="workers",
    name="workers",
)
worker = Operation(
    f"GET {WORKER}", "Show a worker.", WorkerInfo, asks=r.AskWorker, every_tenant="workers", name="worker"
)
_ACTIONS = {
    WorkerAction.DRAIN: "It gets nothing new until it is resumed, and finishes what it has. This outlasts broken "
    "links and restarts of the scheduler.",
    WorkerAction.RESUME: "A drained worker gets runs again. One that is leaving cannot be resumed (`wrong_status`).",
    WorkerAction.REMOVE: "A connected worker finishes its runs and leaves: the answer has the state `draining`. One "
    "that is `away` is forgotten, and its runs are retried elsewhere. A worker of `interlock up` is started again; "
    "stop it as a service instead.",
}
worker_actions = {
    action: Operation(
        f"POST {WORKER}/{action}",
        f"{action.capitalize()} a worker. {meaning}",
        WorkerInfo,
        name=f"{action}_worker",
        asks=r.ActOnWorker,
        action=action,
        every_tenant="workers",
        raises=(WrongStatus,) if action is WorkerAction.RESUME else (),
    )
    for action, meaning in _ACTIONS.items()
}

WORKER_OPERATIONS: tuple[Operation[Any], ...] = (workers, worker, *worker_actions.values())
