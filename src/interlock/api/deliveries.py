"""Deliveries, read from the store."""

from collections.abc import Awaitable

from msgspec.structs import replace

from interlock.api.call import Handlers, HttpCall, handlers_of
from interlock.api.listing import read_page
from interlock.error import UnknownDelivery
from interlock.interface.record_operations import ReadDeliveries, ReadDelivery
from interlock.model.delivery import Delivery, DeliveryInfo, DeliveryPage, info_of
from interlock.model.record import RecordFilter
from interlock.ports.store import Reader, RecordRows


class DeliveryHandlers:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.handlers: Handlers = handlers_of(self)

    async def deliveries(self, call: HttpCall[ReadDeliveries]) -> DeliveryPage:
        query = call.request
        wanted = RecordFilter(run=query.run, job=query.job, state=query.state, id_prefix=query.id_prefix)

        def read(tenant: str | None, before: int | None, limit: int) -> Awaitable[RecordRows[Delivery]]:
            return self._reader.records(Delivery, replace(wanted, tenant=tenant), before, limit)

        rows, following = await read_page(call, RecordRows[Delivery]([], None), read)
        return DeliveryPage(deliveries=[info_of(delivery) for delivery in rows.records], next=following)

    async def delivery(self, call: HttpCall[ReadDelivery]) -> DeliveryInfo:
        """Return the delivery if the caller may see it; one of another tenant does not exist for them."""
        delivery_id = call.request.delivery_id
        found = await self._reader.record(Delivery, delivery_id)
        if found is None or not call.caller.sees(found.tenant):
            raise UnknownDelivery(delivery_id)
        return info_of(found)
