"""Requests that are operations as they are: route, OpenAPI, clients and reference are made from the class.

Fields that the route names are parameters of the path, the others those of the query. An operation with a body is still
declared in `interface/`. The docstring is the text: the summary, one sentence, and then the description.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import msgspec

from interlock.error import InterlockError
from interlock.wire.message import sent_kinds
from interlock.wire.request import ChangeRequest, Request

A_co = TypeVar("A_co", covariant=True)


class Http(NamedTuple):
    """How an operation is offered over HTTP."""

    name: str  # of the operation; `{action}` in it as in the route
    route: str  # method and path below /api/v1
    group: str = ""  # of operations that belong together; by default the first word of the path
    every_tenant: str = ""  # things that belong to all tenants; if given, only callers who see every tenant get them
    in_tenant: bool = False  # whether it is about one tenant, by default the caller's: its field `tenant`
    raises: tuple[type[InterlockError], ...] = ()  # its own errors, besides those of path, body and HTTP
    actions: Mapping[Any, str] = {}  # the text of each value of the field `action`


class Question(Request[A_co], Generic[A_co], frozen=True, kw_only=True):
    """An operation that changes nothing."""

    http: ClassVar[Http]

    if TYPE_CHECKING:  # so that type checkers see the caller in no signature

        @property
        def only_tenant(self) -> str | None: ...
    else:
        only_tenant: str | None = None  # the only tenant that the answer may name

    def by(self, **caller: str | None) -> Self:
        """Return the request with values of its caller."""
        return msgspec.structs.replace(self, **caller)


class Order(ChangeRequest[A_co], Generic[A_co], frozen=True, kw_only=True):
    """An operation that changes something."""

    http: ClassVar[Http]

    if TYPE_CHECKING:

        @property
        def actor(self) -> str: ...
        @property
        def only_tenant(self) -> str | None: ...
        @property
        def parent(self) -> str: ...
    else:
        actor: str = ""  # the caller behind the client; empty for the client itself
        only_tenant: str | None = None  # the one tenant for which the caller acts; None for every tenant
        parent: str = ""  # claim of the attempt whose code asks for it

    def by(self, **caller: str | None) -> Self:
        """Return the request with values of its caller."""
        return msgspec.structs.replace(self, **caller)


def declared() -> Iterator[type[Question[Any] | Order[Any]]]:
    """Yield every request that is an operation, of the modules that are loaded."""
    for parent in (Question, Order):
        for kind in sent_kinds(parent):
            assert issubclass(kind, Question | Order)
            yield kind
