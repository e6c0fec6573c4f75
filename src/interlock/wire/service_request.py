"""Operations on services and on the tree that they are in."""

from typing import ClassVar

from interlock.error import BadConfig, WrongStatus
from interlock.model.child_info import ChildInfo, ServiceAction
from interlock.model.reload_report import Reloaded
from interlock.wire.operation import Http, Order, Question

THEN = "The answer comes when that is done, and shows the service as it is then."


class AskTree(Question[ChildInfo], frozen=True):
    """Show the supervision tree. The supervisors and their children, from the top."""

    http: ClassVar = Http("tree", "GET /tree", "services", every_tenant="services")


class ActOnService(Order[ChildInfo], frozen=True):
    """Act on a service or a group; answered when it is done."""

    name: str
    action: ServiceAction

    patience: ClassVar = 300.0
    once: ClassVar = True
    http: ClassVar = Http(
        "{action}_service",
        "POST /services/{name}/{action}",
        every_tenant="services",
        raises=(WrongStatus,),
        actions={
            ServiceAction.START: f"Start a service. Start a service that is down or waits to be restarted. {THEN}",
            ServiceAction.STOP: f"Stop a service. It stays down until it is started again. {THEN}",
            ServiceAction.RESTART: f"Restart a service. Stop a service if it is up, and start it. {THEN}",
            ServiceAction.SUSPEND: f"Suspend a service. Freeze the processes of a service. {THEN}",
            ServiceAction.RESUME: f"Resume a service. Let a suspended service continue. {THEN}",
        },
    )


class Reload(Order[Reloaded], frozen=True):
    """Reload the files. Bring jobs and services in line with the files that declare them; what is the same there is
    left alone. With any fault in the files nothing is changed, and the problem lists all faults."""

    patience: ClassVar = 300.0
    once: ClassVar = True
    http: ClassVar = Http("reload", "POST /reload", "services", every_tenant="services", raises=(BadConfig,))
