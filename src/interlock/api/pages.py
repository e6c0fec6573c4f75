"""Pages for people: links at `/`, and at `/docs` a viewer of the OpenAPI description."""

from importlib.resources import files
from typing import Any

from interlock.api.call import Handlers, HttpCall, Reply
from interlock.interface.operation import Operation

LINKS = {
    "docs": "/docs",
    "openapi": "/openapi.json",
    "health": "/healthz",
    "readiness": "/readyz",
    "metrics": "/metrics",
    "api": "/api/v1",
}
INDEX = Operation("GET /", "Links.", dict[str, str], permission=None)
DOCS = Operation("GET /docs", "Viewer.", str, media_type="text/html; charset=utf-8", permission=None)
_POLICY = b"default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
_VIEWER = files("interlock.api").joinpath("docs.html").read_bytes()


async def index(call: HttpCall[Any, None]) -> dict[str, str]:
    return LINKS


async def docs(call: HttpCall[Any, None]) -> Reply:
    return Reply(_VIEWER, ((b"content-security-policy", _POLICY),))


HANDLERS: Handlers = {INDEX: index, DOCS: docs}
