"""Pages for people: links at `/`, which leads browsers to the dashboard; at `/docs` a viewer of OpenAPI."""

from importlib.resources import files
from typing import Any, ClassVar

from interlock.api.call import Handlers, HttpCall, Reply
from interlock.api.dashboard import wants_page
from interlock.interface.operation import operation_of
from interlock.wire.operation import GatewayRequest, Http

LINKS = {
    "dashboard": "/ui/",
    "docs": "/docs",
    "openapi": "/openapi.json",
    "health": "/healthz",
    "readiness": "/readyz",
    "metrics": "/metrics",
    "api": "/api/v1",
}
_POLICY = b"default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
_VIEWER = files("interlock.api").joinpath("docs.html").read_bytes()


class ReadIndex(GatewayRequest[dict[str, str]], frozen=True):
    """Links."""

    permission: ClassVar = None
    http: ClassVar = Http("index", "GET /", base="")


class ReadDocs(GatewayRequest[str], frozen=True):
    """Viewer."""

    permission: ClassVar = None
    http: ClassVar = Http("docs", "GET /docs", media_type="text/html; charset=utf-8", base="")


async def index(call: HttpCall[Any]) -> Reply:
    by_kind = ((b"vary", b"accept"),)
    if wants_page(call.headers):
        return Reply(LINKS, ((b"location", b"ui/"), *by_kind), 302)
    return Reply(LINKS, by_kind)


async def docs(call: HttpCall[Any]) -> Reply:
    return Reply(_VIEWER, ((b"content-security-policy", _POLICY),))


HANDLERS: Handlers = {operation_of(ReadIndex): index, operation_of(ReadDocs): docs}
