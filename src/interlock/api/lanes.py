"""Operations that create lanes and set their values."""

from interlock.api.call import Handlers, HttpCall, handlers_of
from interlock.api.patience import ask
from interlock.client.connection import Connection
from interlock.fields.field import copy_fields
from interlock.fields.field_types import FieldPath, Rate
from interlock.interface.server_operations import AddLane, ChangeLane
from interlock.model.lane import LaneChange, LaneInfo, LaneSpec
from interlock.wire import lane_request as r


class LaneHandlers:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.handlers: Handlers = handlers_of(self)

    async def create_lane(self, call: HttpCall[AddLane]) -> LaneInfo:
        spec = copy_fields(LaneSpec, call.request)
        return await ask(self._connection, r.CreateLane(0, call.request.id, spec, call.caller.name))

    async def set_lane(self, call: HttpCall[ChangeLane]) -> LaneInfo:
        rate = call.body.rate
        number = Rate().check(rate, FieldPath("rate")) if isinstance(rate, str) else rate
        change = copy_fields(LaneChange, call.body, rate=number)
        return await ask(self._connection, r.SetLane(0, call.request.lane, change, call.caller.name))
