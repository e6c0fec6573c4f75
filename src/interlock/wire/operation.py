"""Requests that are operations as they are: route, OpenAPI, clients and reference are made from the class.

Fields that the route names are parameters of the path. The others are fields of the JSON body if it has a name, and
otherwise parameters of the query. The docstring is the text: the summary, one sentence, and then the description.

On a link, the fields of a class come before those of its base, unless the class is `kw_only` too. A field that is added
later must come last, because nodes of the version before read it: give it to a class of its own with `kw_only=True`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

import msgspec

from interlock.error import InterlockError
from interlock.model.access import Permission
from interlock.wire.new_run import LONGEST_KEY
from interlock.wire.request import ChangeRequest, Request, answer_of

A_co = TypeVar("A_co", covariant=True)
API = "/api/v1"


class Key(NamedTuple):
    """The header `Idempotency-Key`, where an operation takes one."""

    description: str
    longest: int = LONGEST_KEY


class Http(NamedTuple):
    """How an operation is offered over HTTP."""

    name: str  # of the operation; `{action}` in it as in the route
    route: str  # method and path below `base`
    group: str = ""  # of operations that belong together; by default the first word of the path
    every_tenant: str = ""  # things that belong to all tenants; if given, only callers who see every tenant get them
    in_tenant: bool = False  # whether it is about one tenant, by default the caller's: its field `tenant`
    raises: tuple[type[InterlockError], ...] = ()  # its own errors, besides those of path, body and HTTP
    actions: Mapping[Any, str] = {}  # the text of each value of the field `action`
    body: Any = ""  # name of the type of the JSON body that has its fields; or the type of one that is no part of it
    body_required: bool = True
    key: Key | None = None
    status: int = 200
    media_type: str = "application/json"
    base: str = API


class Question(Request[A_co], Generic[A_co], frozen=True, kw_only=True):
    """An operation that changes nothing, and that the scheduler answers."""

    http: ClassVar[Http]

    if TYPE_CHECKING:  # so that type checkers see the caller in no signature

        @property
        def only_tenant(self) -> str | None: ...
    else:
        only_tenant: str | None = None  # the only tenant that the answer may name


class Order(ChangeRequest[A_co], Generic[A_co], frozen=True, kw_only=True):
    """An operation that changes something, and that the scheduler carries out."""

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


class GatewayRequest(
    msgspec.Struct, Generic[A_co], frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """An operation that the gateway carries out itself: it reads the store, or asks the scheduler for parts of it."""

    http: ClassVar[Http]
    answer: ClassVar[Any] = None
    permission: ClassVar[Permission | None] = Permission.READ  # None: no token needed
    patience: ClassVar[float] = 10.0
    once: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        answer_of(cls)


Declared = Question[A_co] | Order[A_co] | GatewayRequest[A_co]
