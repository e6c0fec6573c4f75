"""Sessions of browsers: a token becomes a cookie and a secret, and the server wants both.

A cookie reaches every port of a host, so a page of another port can have the browser send it, and another server there
can read it. It cannot read the secret, which the page keeps in the storage of its own origin. Nothing is stored for a
session: cookie and secret are signatures made with a key that lies in the store, over the token's name, the end, a
nonce and the hash of the token. So a session ends when its token is removed or replaced.
"""

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from interlock.api.call import Handlers, HttpCall, Reply, handlers_of
from interlock.api.patience import ask
from interlock.client.connection import Connection
from interlock.error import Forbidden, NobodySignsIn, Unauthorized
from interlock.fields.json_form import rfc3339
from interlock.interface.sign_in_operations import Me, SignedIn, SignIn
from interlock.model.access import LINK_ROLES, OWNER, Caller, Grant, Permission, caller_of
from interlock.model.record import Memo
from interlock.ports.store import Reader
from interlock.wire.sign_in_request import KEY_MEMO, KeepKey

SESSION = 12 * 3600  # seconds
SECRET = b"x-interlock-secret"
COOKIE, PAGE, NAME = b"cookie", b"page", b"name"  # what a signature is for
AGAIN = "sign in again"

Headers = Mapping[bytes, bytes]


class Sessions:
    def __init__(
        self, reader: Reader, connection: Connection, grants: Sequence[Grant], now: Callable[[], float] = time.time
    ) -> None:
        self._reader = reader
        self._connection = connection
        self._grants = {grant.caller.name: grant for grant in grants}
        self._now = now
        self._key: bytes | None = None
        self.handlers: Handlers = handlers_of(self)

    # ── callers ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def caller(self, headers: Headers) -> Caller | None:
        """Return the caller of a request with a secret; None without one. Raise if its session is unknown or over."""
        found = await self._find(headers)
        return None if found is None else found[0]

    async def _find(self, headers: Headers) -> tuple[Caller, int] | None:
        secret = headers.get(SECRET)
        if secret is None:
            return None
        key = await self._load_key()
        cookies = () if key is None else tuple(_cookies(headers, cookie_name(key)))
        if key is None or not cookies:
            raise Unauthorized(f"session: the secret came without its cookie; {AGAIN}")
        problem = "unknown, or its token was removed"
        for cookie in cookies:
            signed, _, _ = cookie.rpartition(":")
            name, _, rest = signed.partition(":")
            grant = self._grants.get(name)
            if grant is None or not hmac.compare_digest(cookie.encode("latin-1"), _signed(key, grant, signed).encode()):
                continue
            if not hmac.compare_digest(secret, _signature(key, PAGE, grant, signed).encode()):
                problem = "the secret is not the one of the cookie"
            elif (until := int(rest.partition(":")[0])) <= self._now():
                problem = f"it ended at {rfc3339(until)}"
            else:
                return grant.caller, until
        raise Unauthorized(f"session: {problem}; {AGAIN}")

    # ── operations ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def me(self, call: HttpCall[Any]) -> Me:
        caller, until = call.caller, None
        if caller is not OWNER and b"authorization" not in call.headers:
            found = await self._find(call.headers)
            until = None if found is None else float(found[1])
        may, may_not = [], {}
        for permission in Permission:
            try:
                caller.need(permission)
                may.append(permission.value)
            except Forbidden as error:
                may_not[permission.value] = str(error)
        try:
            caller.need_every_tenant("services, lanes and jobs")
            may.append("every tenant")
        except Forbidden as error:
            may_not["every tenant"] = str(error)
        return Me(name=caller.name, role=caller.role, tenant=caller.tenant, may=may, may_not=may_not, until=until)

    async def sign_in(self, call: HttpCall[SignIn]) -> Reply:
        if not self._grants:
            raise NobodySignsIn
        caller = caller_of(call.request.token.strip(), list(self._grants.values()))
        if caller is None:
            raise Unauthorized("token: unknown")
        if caller.role in LINK_ROLES:
            raise Forbidden(f"role: {caller.role.value!r} may not sign in; programs with it use their own links")
        key, grant, until = await self._make_key(), self._grants[caller.name], int(self._now()) + SESSION
        signed = f"{caller.name}:{until}:{secrets.token_hex(16)}"
        secure = "; Secure" if _is_behind_tls(call.headers) else ""
        cookie = (
            f"{cookie_name(key)}={_signed(key, grant, signed)}; Path=/; Max-Age={SESSION}; HttpOnly; SameSite=Strict"
        )
        headers = ((b"set-cookie", f"{cookie}{secure}".encode()), (b"cache-control", b"no-store"))
        return Reply(SignedIn(secret=_signature(key, PAGE, grant, signed), until=float(until)), headers)

    # ── the key ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _load_key(self) -> bytes | None:
        if self._key is None and (found := await self._reader.record(Memo, KEY_MEMO)) is not None:
            self._key = bytes.fromhex(found.value.decode())
        return self._key

    async def _make_key(self) -> bytes:
        return await self._load_key() or bytes.fromhex(
            await ask(self._connection, KeepKey(0, secrets.token_bytes(32).hex()))
        )


def cookie_name(key: bytes) -> str:
    """Return the name of the cookie. It differs between servers: those on other ports of a host share its cookies."""
    return f"interlock_{hmac.digest(key, NAME, hashlib.sha256).hex()[:8]}"


def _signed(key: bytes, grant: Grant, signed: str) -> str:
    return f"{signed}:{_signature(key, COOKIE, grant, signed)}"


def _signature(key: bytes, purpose: bytes, grant: Grant, signed: str) -> str:
    return hmac.digest(key, b"\0".join((purpose, grant.digest, signed.encode("latin-1"))), hashlib.sha256).hex()


def _cookies(headers: Headers, name: str) -> Iterator[str]:
    for pair in headers.get(b"cookie", b"").decode("latin-1").split(";"):
        own, _, value = pair.strip().partition("=")
        if own == name:
            yield value


def _is_behind_tls(headers: Headers) -> bool:
    """Return whether the browser speaks TLS with a proxy before the server. A browser names the origin of a POST."""
    return headers.get(b"origin", b"").startswith(b"https:") or headers.get(b"x-forwarded-proto") == b"https"
