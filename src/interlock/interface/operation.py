"""The type of an HTTP operation: everything that the server, its description and the clients need to know of one."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar, get_type_hints

import msgspec

from interlock import error as e
from interlock.interface.new_run_body import Body
from interlock.model.access import Permission
from interlock.model.job import JOB_ID, NAME
from interlock.wire.operation import Order, Question
from interlock.wire.request import LONGEST_KEY, Request

A = TypeVar("A")
API = "/api/v1"
IN_DOUBT = "; it may have been done, or still be under way"  # after an answer that was lost


class Query(Body, frozen=True, kw_only=True):
    """The query parameters of an operation: none, unless a subclass has fields."""


class PathParameter(NamedTuple):
    description: str
    longest: int
    unknown: tuple[type[e.InterlockError], ...]  # the errors for a value that leads nowhere
    pattern: str | None = None


PATH_PARAMETERS = {
    "run_id": PathParameter("The id of the run.", 1200, (e.UnknownRun, e.RunPruned)),
    "bulk_id": PathParameter("The id of the bulk request.", 256, (e.UnknownBulk,)),
    "job_id": PathParameter("The id of the job.", 128, (e.UnknownJob,), f"^{JOB_ID.pattern}$"),
    "lane": PathParameter("The name of the lane.", 64, (e.UnknownLane,), f"^{NAME.pattern}$"),
    "worker_id": PathParameter("The id of the worker.", 64, (e.UnknownWorker,), f"^{NAME.pattern}$"),
    "session": PathParameter(
        "The key of the session, up to 512 bytes of UTF-8; a slash in it is written `%2F`.", 512, ()
    ),
    "delivery_id": PathParameter("The id of the delivery.", 64, (e.UnknownDelivery,)),
    "letter": PathParameter("The id of the dead letter.", 256, (e.UnknownLetter,)),
    "name": PathParameter("The name of the service or group.", 256, (e.UnknownChild,)),
}


class Key(NamedTuple):
    """The header `Idempotency-Key`, where an operation takes one."""

    description: str
    longest: int = LONGEST_KEY


@dataclass(eq=False)
class Operation(Generic[A]):
    route: str  # method and path, such as `GET /api/v1/runs/{run_id}`
    text: str  # the summary, one sentence, and then the description, if any
    answer: type[A]  # the body of a 2xx, as JSON; `str` for text of the type `media_type`
    _: KW_ONLY
    name: str = ""
    media_type: str = "application/json"
    status: int = 200
    query: type[Query] = Query
    body: Any = None  # the type of the JSON body; None if the operation takes none
    body_required: bool = True
    key: Key | None = None
    group: str = ""
    asks: type[Request[Any]] | None = None  # the request to the scheduler; it gives permission, patience and `once`
    action: StrEnum | None = None  # the field `action` of that request
    permission: Permission | None = Permission.READ  # if no request gives it; None: no token needed
    in_tenant: bool = False  # whether it is about one tenant, by default the caller's: its parameter `tenant`
    every_tenant: str = ""  # things that belong to all tenants; if given, only callers who see every tenant get them
    raises: tuple[type[e.InterlockError], ...] = ()  # its own errors, besides those of path, body and HTTP
    patience: float | None = None  # seconds for the answer, if neither a request nor the query gives them

    @property
    def summary(self) -> str:
        return self.text.partition(". ")[0].removesuffix(".")

    @property
    def description(self) -> str:
        return self.text.partition(". ")[2]

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


def name_all(table: Mapping[str, object]) -> None:
    """Give the operations of a module the names of their variables."""
    for name, value in table.items():
        if isinstance(value, Operation):
            value.name = name


CALLER = frozenset({"request", "action", "actor", "only_tenant", "parent"})
"""fields of a request that are no parameters of its operation"""


def operations_of(kind: type[Question[Any] | Order[Any]]) -> Iterator[Operation[Any]]:
    """Yield the operations that a request declares: one for each of its actions, or one."""
    http, texts = kind.http, kind.http.actions.values()
    for action, text in (http.actions or {None: " ".join((kind.__doc__ or "").split())}).items():
        method, path = http.route.replace("{action}", str(action)).split(" ")
        yield Operation(
            f"{method} {API}{path}",
            text,
            kind.answer,
            name=http.name.replace("{action}", str(action)),
            query=_parameters(kind) if issubclass(kind, Question) or http.in_tenant else Query,
            group=http.group or path.split("/")[1],
            asks=kind,
            action=action,
            in_tenant=http.in_tenant,
            every_tenant=http.every_tenant,
            # An error that the text of an action names is an error of that action.
            raises=tuple(
                one for one in http.raises if one.code in text or not any(one.code in other for other in texts)
            ),
        )


@cache
def _parameters(kind: type[Question[Any] | Order[Any]]) -> type[Query]:
    """Return the query of an operation: the fields of its request that the path does not name."""
    hints = get_type_hints(kind, include_extras=True)
    fields = [
        (field.name, hints[field.name], msgspec.field(default=field.default))
        for field in msgspec.structs.fields(kind)
        if field.name not in CALLER and f"{{{field.name}}}" not in kind.http.route
    ]
    found: Any = msgspec.defstruct(f"{kind.__name__}Query", fields, bases=(Query,), frozen=True, kw_only=True)
    return found if fields else Query
