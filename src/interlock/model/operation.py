"""The type of an HTTP operation: everything that the server, its description and the clients need to know of one."""

import re
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from interlock.model.access import Permission
from interlock.model.error import InterlockError, RunPruned, UnknownBulk, UnknownChild, UnknownJob, UnknownRun
from interlock.model.request import LONGEST_KEY, Request

A = TypeVar("A")


class Query(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The query parameters of an operation: none, unless a subclass has fields."""


class PathParameter(NamedTuple):
    description: str
    longest: int
    unknown: tuple[type[InterlockError], ...]  # the errors for a value that leads nowhere
    pattern: str | None = None


PATH_PARAMETERS = {
    "run_id": PathParameter("The id of the run.", 256, (UnknownRun, RunPruned)),
    "bulk_id": PathParameter("The id of the bulk request.", 256, (UnknownBulk,)),
    "job_id": PathParameter("The id of the job.", 128, (UnknownJob,), "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$"),
    "name": PathParameter("The name of the service or group.", 256, (UnknownChild,)),
}


class Key(NamedTuple):
    """The header `Idempotency-Key`, where an operation takes one."""

    description: str
    longest: int = LONGEST_KEY


@dataclass(frozen=True, kw_only=True, eq=False)
class Operation(Generic[A]):
    name: str
    route: str  # method and path, such as `GET /api/v1/runs/{run_id}`
    summary: str
    description: str = ""
    answer: type[A]  # what a 2xx has in its body, as JSON; `str` for text of the type `media_type`
    media_type: str = "application/json"
    status: int = 200
    query: type[Query] = Query
    body: Any = None  # the type of the JSON body; None if the operation takes none
    body_required: bool = True
    key: Key | None = None
    asks: type[Request[Any]] | None = None
    """the request of the scheduler that this operation is; it gives permission, patience and `once`"""
    permission: Permission | None = None  # where no request gives it; None for an operation that needs no token
    every_tenant: str = ""
    """if not empty, only callers who see every tenant may use the operation; the word names what belongs to all"""
    raises: tuple[type[InterlockError], ...] = ()  # its own errors, besides those of path, body and HTTP
    patience: float | None = None
    """seconds for which the server may work on the answer, where neither a request nor the query says so"""

    @property
    def method(self) -> str:
        return self.route.partition(" ")[0]

    @property
    def path(self) -> str:
        return self.route.partition(" ")[2]

    @property
    def needs(self) -> Permission | None:
        return self.permission if self.asks is None else self.asks.permission

    @property
    def once(self) -> bool:
        """Whether a request without an answer must not be sent again, because it may have been carried out."""
        return self.asks is not None and self.asks.once

    @property
    def limit(self) -> float:
        """Seconds for which the server may work on the answer, besides what a query asks it to wait."""
        return self.patience or (10.0 if self.asks is None else self.asks.patience)

    @property
    def parameters(self) -> list[str]:
        """The names of the path's parameters, in order."""
        return re.findall(r"\{(\w+)\}", self.path)
