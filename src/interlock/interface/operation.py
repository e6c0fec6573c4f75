"""One HTTP operation, made from the request that declares it: what the server, its description and the clients need."""

import re
from collections.abc import Collection, Iterator
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, NamedTuple, TypeVar, get_type_hints

import msgspec

from interlock import error as e
from interlock.interface.bodies import Body
from interlock.model.job import JOB_ID, NAME
from interlock.wire.operation import Declared, GatewayRequest
from interlock.wire.parameter import PageSize, cursor_form

A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)
IN_DOUBT = "; it may have been done, or still be under way"  # after an answer that was lost
CALLER = frozenset({"request", "action", "actor", "only_tenant", "parent", "key", "body"})
"""fields of a request to the scheduler that are no parameters of its operation"""


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
    "letter_id": PathParameter("The id of the dead letter.", 256, (e.UnknownLetter,)),
    "name": PathParameter("The name of the service or group.", 256, (e.UnknownChild,)),
}


PageCursor = Annotated[str | None, cursor_form("[a-z][0-9]{1,18}")]


class PageRequest(GatewayRequest[A_co], Generic[A_co], frozen=True, kw_only=True):
    """A page of a list. A client reads all pages, or as many as have `limit` items."""

    cursors: ClassVar[str]  # the letter with which its cursors begin

    limit: PageSize = 50

    if TYPE_CHECKING:

        @property
        def cursor(self) -> str | None: ...
    else:
        cursor: PageCursor = None


class Operation(Generic[A]):
    def __init__(self, kind: type[Declared[A]], action: StrEnum | None = None) -> None:
        http = kind.http
        self.kind = kind
        self.action = action  # the field `action` of the request
        self.http = http
        self.answer: type[A] = kind.answer  # the body of a 2xx, as JSON; `str` for text of another type
        self.name = http.name.replace("{action}", str(action))
        self.method, _, path = http.route.replace("{action}", str(action)).partition(" ")
        self.path = http.base + path
        self.group = http.group or path.split("/")[1]
        self.needs = kind.permission
        self.once = kind.once
        """whether a request without an answer must not be sent again, because it may have been carried out"""
        self.limit = kind.patience
        """seconds for which the server may work on the answer, besides what a query asks it to wait"""
        self.in_body = http.body != "" and isinstance(http.body, str)
        """whether its fields are those of the JSON body, and otherwise parameters of the query"""
        self.parameters: list[str] = re.findall(r"\{(\w+)\}", path)
        """the names of the path's parameters, in order"""

    @property
    def text(self) -> str:
        """The summary, one sentence, and then the description, if any."""
        return self.http.actions[self.action] if self.http.actions else " ".join((self.kind.__doc__ or "").split())

    @property
    def summary(self) -> str:
        return self.text.partition(". ")[0].removesuffix(".")

    @property
    def description(self) -> str:
        return self.text.partition(". ")[2]

    @property
    def raises(self) -> tuple[type[e.InterlockError], ...]:
        """Its own errors. An error that the text of an action names is an error of that action."""
        texts = self.http.actions.values()
        return tuple(
            error
            for error in self.http.raises
            if error.code in self.text or not any(error.code in other for other in texts)
        )

    @property
    def fields(self) -> list[str]:
        """The fields of the request besides those of the path."""
        hidden = {"action"} if issubclass(self.kind, GatewayRequest) else CALLER
        names = [name for name in self.kind.__struct_fields__ if name not in hidden and name not in self.parameters]
        last = PageRequest.__struct_fields__ if issubclass(self.kind, PageRequest) else ()
        return sorted(names, key=last.__contains__)

    def request(self, **fields: Any) -> Declared[A]:
        """Return the request with these fields."""
        if self.action is not None:
            fields["action"] = self.action
        return self.kind(**fields) if issubclass(self.kind, GatewayRequest) else self.kind(0, **fields)

    @cached_property
    def query(self) -> type[msgspec.Struct]:
        """The parameters of the query, as a struct."""
        return _struct(f"{self.kind.__name__}Query", self.kind, [] if self.in_body else self.fields)

    @cached_property
    def body(self) -> Any:
        """The type of the JSON body; None if the operation takes none."""
        return _struct(self.http.body, self.kind, self.fields) if self.in_body else self.http.body or None


_STRUCTS: dict[str, type[msgspec.Struct]] = {}
_OPERATIONS: dict[tuple[type, str | None], Operation[Any]] = {}


def _struct(name: str, kind: Any, names: Collection[str]) -> type[msgspec.Struct]:
    """Return a struct with these fields of a request. Bodies of the same name are the same."""
    if name not in _STRUCTS:
        hints = get_type_hints(kind, include_extras=True)
        own = {field.name: field for field in msgspec.structs.fields(kind)}
        fields: Any = [(name, hints[name], _default(own[name])) for name in names]
        _STRUCTS[name] = msgspec.defstruct(name, fields, bases=(Body,), frozen=True, kw_only=True)
    return _STRUCTS[name]


def _default(field: Any) -> Any:
    name = None if field.name == field.encode_name else field.encode_name
    default: Any = {"default": field.default, "default_factory": field.default_factory}
    return msgspec.field(name=name, **default)


def operations_of(kind: type[Declared[A]]) -> Iterator[Operation[A]]:
    """Yield the operations that a request declares: one for each of its actions, or one."""
    for action in kind.http.actions or (None,):
        yield operation_of(kind, action)


def operation_of(kind: type[Declared[A]], action: StrEnum | None = None) -> Operation[A]:
    """Return the operation that a request is, always the same one."""
    if (kind, action) not in _OPERATIONS:
        _OPERATIONS[kind, action] = Operation(kind, action)
    return _OPERATIONS[kind, action]
