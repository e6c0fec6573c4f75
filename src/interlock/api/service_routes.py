"""Routes for the tree that is kept up, and for the services in it. They belong to the whole installation, so they are
for those who may see every tenant."""

from typing import Annotated, Any

import msgspec
from litestar import get, post
from litestar.params import PathParameter, QueryParameter

from interlock.api.runs import Asked, backend_of, caller_of, seconds_of, while_wanted
from interlock.api.tree import Tree
from interlock.model.access import Caller, Permission
from interlock.model.bodies import ServiceList
from interlock.model.child_info import ChildInfo, ServiceAction
from interlock.model.reload_report import Reloaded
from interlock.model.run_view import ServiceLogPage

SERVICE = "/api/v1/services/{name:str}"

ServiceName = Annotated[str, PathParameter(description="The name of the service, or of a group.", max_length=256)]
LineWait = Annotated[
    str | None,
    QueryParameter(description="How long to wait for a line if there is none, as in `30s`; 5 minutes at the most."),
]


def _admitted(request: Asked, permission: Permission) -> Caller:
    caller = caller_of(request, permission)
    caller.need_every_tenant("services")
    return caller


def _tree(request: Asked) -> Tree:
    return backend_of(request).tree


def _alone(child: ChildInfo) -> ChildInfo:
    return msgspec.structs.replace(child, children=[])


@get("/api/v1/tree", summary="Everything that is kept up", operation_id="tree", tags=["services"])
async def tree(request: Asked) -> ChildInfo:
    """The tree of supervisors and what they keep up, from the top."""
    _admitted(request, Permission.READ)
    return await _tree(request).whole()


@get("/api/v1/services", summary="List services", operation_id="services", tags=["services"])
async def services(request: Asked) -> ServiceList:
    """Services and groups of them, in the order in which they start."""
    _admitted(request, Permission.READ)
    found = await _tree(request).services()
    return ServiceList(services=[_alone(one) for one in found])


@get(SERVICE, summary="A service", operation_id="service", tags=["services"])
async def service(request: Asked, name: ServiceName) -> ChildInfo:
    """A service as it stands, or a group with all that is in it."""
    _admitted(request, Permission.READ)
    return await _tree(request).service(name)


@get(f"{SERVICE}/logs", summary="Log of a service", operation_id="service_logs", tags=["services"])
async def service_logs(
    request: Asked,
    name: ServiceName,
    limit: Annotated[int, QueryParameter(ge=1, le=10_000)] = 1000,
    cursor: Annotated[
        str | None, QueryParameter(description="The `next` of an answer before; only what is newer.")
    ] = None,
    last: Annotated[bool, QueryParameter(description="`true`: the newest lines instead of the oldest.")] = False,
    wait: LineWait = None,
) -> ServiceLogPage:
    """What a service printed, and what happened to it, the oldest first. Go on with `next`: at the end of what there is
    a page is empty, or with `wait` there is an answer when a line comes."""
    _admitted(request, Permission.READ)
    reading = _tree(request).logs(name, cursor, limit, last, seconds_of(wait))
    return await (while_wanted(request, reading) if wait else reading)


def _route(action: ServiceAction, summary: str, meaning: str) -> Any:
    async def act(request: Asked, name: ServiceName) -> ChildInfo:
        caller = _admitted(request, Permission.OPERATE)
        return await while_wanted(request, _tree(request).act(name, action, caller))

    act.__doc__ = f"{meaning} The answer comes when that is done, and says how the service stands then."
    path = f"{SERVICE}/{action}"
    return post(path, status_code=200, summary=summary, operation_id=f"{action}_service", tags=["services"])(act)


ACTIONS = [
    _route(ServiceAction.START, "Start a service", "Start a service that is down, or is waiting to be started again."),
    _route(ServiceAction.STOP, "Stop a service", "End a service. It stays down until it is started again."),
    _route(ServiceAction.RESTART, "Restart a service", "End a service, if it is up, and start it."),
    _route(ServiceAction.SUSPEND, "Suspend a service", "Have a service stand still where it is."),
    _route(ServiceAction.RESUME, "Resume a service", "Have a suspended service go on."),
]


@post("/api/v1/reload", status_code=200, summary="Read the files again", operation_id="reload", tags=["services"])
async def reload(request: Asked) -> Reloaded:
    """Bring the services in line with the files that define them; those that are the same there are left as they are.
    Where there is any fault in the files nothing is changed, and the problem lists all of them."""
    caller = _admitted(request, Permission.OPERATE)
    return await while_wanted(request, _tree(request).reload(caller))


HANDLERS = [tree, services, service, service_logs, *ACTIONS, reload]
