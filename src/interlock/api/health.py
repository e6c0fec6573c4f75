"""Routes for probes and for Prometheus."""

from litestar import MediaType, Response, get

from interlock.api.auth import asked_by
from interlock.api.runs import Asked, backend_of, caller_of
from interlock.model.access import Permission
from interlock.model.bodies import Check, Health, Readiness
from interlock.model.exposition import Family, exposition


@get("/healthz", summary="Whether this process is alive", operation_id="healthz", tags=["health"])
async def healthz() -> Health:
    return Health(alive=True)


@get("/readyz", summary="Whether work can be done", operation_id="readyz", tags=["health"])
async def readyz(request: Asked) -> Response[Readiness]:
    """The store can be read, and the scheduler gets on: its loop turns, its writes arrive, and somebody does the work.

    Without a token, where tokens are needed, the details are left out.
    """
    found = await backend_of(request).ready()
    if asked_by(request.scope) is None:
        bare = {name: Check(ok=check.ok, detail="") for name, check in found.checks.items()}
        found = Readiness(ready=found.ready, checks=bare)
    return Response(found, status_code=200 if found.ready else 503)


@get("/metrics", summary="Metrics for Prometheus", operation_id="metrics", tags=["health"], media_type=MediaType.TEXT)
async def metrics(request: Asked) -> Response[str]:
    """What the whole scheduler counts, so only for those who may see every tenant."""
    caller_of(request, Permission.READ).need_every_tenant("metrics")
    backend = backend_of(request)
    feed = backend.feed
    own = [
        Family("interlock_event_readers", "gauge", "Open event streams.", [("", {}, float(feed.readers))]),
        Family("interlock_event_readers_cut_total", "counter", "Readers cut off.", [("", {}, float(feed.cut))]),
    ]
    text = exposition([*await backend.families(), *own])
    return Response(text, headers={"content-type": "text/plain; version=0.0.4; charset=utf-8"})


HANDLERS = [healthz, readyz, metrics]
