"""The HTTP operations on deliveries, a part of the table in `operations.py`."""

from typing import Any

from interlock.interface import queries as q
from interlock.interface.operation import API, Operation
from interlock.model.delivery import DeliveryInfo, DeliveryPage
from interlock.wire.delivery_request import Redeliver

DELIVERY = f"{API}/deliveries/{{delivery}}"

deliveries = Operation(
    f"GET {API}/deliveries",
    "List deliveries. Webhooks that are owed or were sent, newest first. A page may be short although more follow: go "
    "on while `next` is not null.",
    DeliveryPage,
    query=q.DeliveriesQuery,
    name="deliveries",
)
delivery = Operation(f"GET {DELIVERY}", "Show a delivery.", DeliveryInfo, name="delivery")
redeliver = Operation(
    f"POST {DELIVERY}/redeliver",
    "Deliver again. The receiver gets the same body under the same `webhook-id`. A delivery that is pending is tried "
    "at once.",
    DeliveryInfo,
    asks=Redeliver,
    name="redeliver",
)

DELIVERY_OPERATIONS: tuple[Operation[Any], ...] = (deliveries, delivery, redeliver)
