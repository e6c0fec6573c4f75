"""Authentication: token, owner of the connection, host and origin.

A browser runs pages of any site, and lets each of them send requests to this machine. So a request with another origin
is refused. Without tokens, so is a request for a host name that is not ours, because any name can be made to lead
here. Other users of the machine can reach a loopback port too: without tokens only the server's own user and root are
served.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from ipaddress import ip_address
from typing import Any

from interlock.api.dashboard import is_page
from interlock.error import Unauthorized, WrongOrigin
from interlock.interface.operations import OPERATIONS
from interlock.model.access import OWNER, Caller, Grant, Role, caller_of

OPEN = frozenset({"/", "/docs", *(operation.path for operation in OPERATIONS if operation.needs is None)})
"""paths that need no token, beside those of the dashboard: a probe has none, and the description holds no data"""
NOBODY = Caller("", Role.VIEWER, "")  # a caller without a token, on an open path
PEER = "interlock.peer"  # in the scope of a request: the `Peer` that sends it

NOT_OWN = (
    "this server has no tokens, so it serves only its own user and root: ask as that user, over TCP or the Unix socket "
    "beside the database, or add 'tokens' to its interlock.yaml and send one as 'Authorization: Bearer …'"
)

Scope = dict[str, Any]
FindCaller = Callable[[Mapping[bytes, bytes]], Awaitable[Caller | None]]


class PeerKind(Enum):
    """The peer of a connection."""

    SOCKET = "came over the Unix socket"
    OWN = "a TCP connection of the server's own user, or of root"
    ANYBODY = "any other TCP connection"


class Door:
    """Lets callers in, or raises the reason not to."""

    def __init__(
        self, grants: Sequence[Grant], hosts: Sequence[str], origins: Sequence[str], session: FindCaller
    ) -> None:
        """`session` returns the caller of a session, None without one; it raises if a session does not hold."""
        self._grants = grants
        self._session = session
        self._hosts = frozenset({"localhost", *(host.lower() for host in hosts)})
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins)

    async def admit(self, scope: Scope, headers: Mapping[bytes, bytes]) -> Caller:
        host = headers.get(b"host", b"").decode("latin-1").lower()
        self._check_origin(host, scope, headers)
        peer = scope.get(PEER)
        if peer is PeerKind.SOCKET:
            return OWNER
        if not self._grants:
            self._check_host(host)
            if peer is not PeerKind.OWN:
                raise Unauthorized(NOT_OWN)
            return OWNER
        try:
            return await self._known(headers)
        except Unauthorized:
            if scope["path"] not in OPEN and not is_page(scope["path"]):
                raise
            return NOBODY

    async def _known(self, headers: Mapping[bytes, bytes]) -> Caller:
        if b"authorization" not in headers:
            caller = await self._session(headers)
        else:
            kind, _, token = headers[b"authorization"].decode("latin-1").partition(" ")
            caller = caller_of(token.strip(), self._grants) if kind.lower() == "bearer" else None
        if caller is None:
            raise Unauthorized
        return caller

    def _check_origin(self, host: str, scope: Scope, headers: Mapping[bytes, bytes]) -> None:
        origin = headers.get(b"origin")
        if origin is None:
            # Another port of this host is the same site, and another origin.
            if headers.get(b"sec-fetch-site") in (b"cross-site", b"same-site") and not _follows_link(scope, headers):
                raise WrongOrigin("origin: pages of other sites are refused")
            return
        name = origin.decode("latin-1").lower().rstrip("/")
        if name not in self._origins and name not in (f"http://{host}", f"https://{host}"):
            raise WrongOrigin(f"origin: {name[:80]!r} is refused; allow it with 'origins' in interlock.yaml")

    def _check_host(self, host: str) -> None:
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if name not in self._hosts and not _is_loopback(name):
            raise WrongOrigin(f"host: {host[:80]!r} is not a name of this server; allow it with 'hosts'")


def _follows_link(scope: Scope, headers: Mapping[bytes, bytes]) -> bool:
    """Return whether a browser follows a link to the dashboard, from wherever: the page alone is nobody's secret."""
    return (scope["path"] == "/" or is_page(scope["path"])) and headers.get(b"sec-fetch-dest") == b"document"


@lru_cache(16)
def _is_loopback(host: str) -> bool:
    """Return whether this is an address of this machine; unlike a name, it leads nowhere else."""
    try:
        return ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False
