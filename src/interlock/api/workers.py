"""Operations that act on workers."""

from typing import Any

from interlock.api.call import Call, Handlers
from interlock.api.patience import ask
from interlock.client.connection import Connection
from interlock.model import worker_operations as op
from interlock.model.worker_info import WorkerAction, WorkerInfo
from interlock.model.worker_request import ActOnWorker


class Workers:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.handlers: Handlers = dict.fromkeys(op.worker_actions.values(), self.act)

    async def act(self, call: Call[Any, None]) -> WorkerInfo:
        action = WorkerAction(call.operation.path.rpartition("/")[2])
        message = ActOnWorker(0, call.path["worker_id"], action, call.caller.name)
        return (await ask(self._connection, message)).worker
