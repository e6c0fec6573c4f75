"""The operations by which a caller signs in, and learns what they may do."""

from typing import Annotated, ClassVar

import msgspec

from interlock.error import NobodySignsIn
from interlock.fields.field import doc
from interlock.fields.json_form import Time
from interlock.model.access import Role
from interlock.wire.operation import GatewayRequest, Http

ACCESS = "access"


class Me(msgspec.Struct, frozen=True, kw_only=True):
    """The caller as the server knows them."""

    name: Annotated[str, doc("Name of the token; `local` for the server's own user without one.")]
    role: Annotated[Role, doc("Role of the token.")]
    tenant: Annotated[str, doc("Tenant of the token; `*` for all.")]
    may: Annotated[list[str], doc("Permissions; `every tenant` stands for what belongs to all tenants.")]
    may_not: Annotated[dict[str, str], doc("The other permissions, each with the reason.")]
    until: Annotated[Time | None, doc("End of the session; null for a caller who did not sign in.")]


class SignedIn(msgspec.Struct, frozen=True, kw_only=True):
    """A session of a browser."""

    secret: Annotated[str, doc("Text to send as `X-Interlock-Secret` with every request, beside the cookie.")]
    until: Annotated[Time, doc("End of the session.")]


class ReadMe(GatewayRequest[Me], frozen=True):
    """Show who you are. Your name, role and tenant, and what you may do."""

    http: ClassVar = Http("me", "GET /me", ACCESS)


class SignIn(GatewayRequest[SignedIn], frozen=True):
    """Sign in. Begin a session of 12 hours for a browser: a cookie that no script can read, and a secret that the page
    keeps. A request needs both. The session survives restarts, and ends with its token. Programs do not sign in; they
    send their token with every request. Without tokens in the settings, nobody signs in."""

    token: Annotated[str, doc("The token.")]

    permission: ClassVar = None
    http: ClassVar = Http("sign_in", "POST /sign-in", ACCESS, raises=(NobodySignsIn,), body="SignInBody")
