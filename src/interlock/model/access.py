"""Who may do what: roles, and the callers that tokens stand for."""

import hashlib
import hmac
from collections.abc import Sequence
from enum import StrEnum

import msgspec

from interlock.model.error import Forbidden


class Role(StrEnum):
    VIEWER = "viewer"
    """sees runs, logs and events"""
    OPERATOR = "operator"
    """submits, cancels and acts on services besides"""
    APPROVER = "approver"
    """clears what waits for approval besides seeing it"""
    ADMIN = "admin"
    """everything"""


class Permission(StrEnum):
    READ = "read"
    SUBMIT = "submit"
    CANCEL = "cancel"
    OPERATE = "operate"
    """act on services, and have the files read again"""
    APPROVE = "approve"


PERMISSIONS: dict[Role, frozenset[Permission]] = {
    Role.VIEWER: frozenset({Permission.READ}),
    Role.OPERATOR: frozenset({Permission.READ, Permission.SUBMIT, Permission.CANCEL, Permission.OPERATE}),
    Role.APPROVER: frozenset({Permission.READ, Permission.APPROVE}),
    Role.ADMIN: frozenset(Permission),
}

EVERY_TENANT = "*"


class Caller(msgspec.Struct, frozen=True):
    """Somebody who asks, by name, with a role in a tenant or in every one."""

    name: str
    role: Role
    tenant: str

    def need(self, permission: Permission) -> None:
        if permission not in PERMISSIONS[self.role]:
            raise Forbidden(f"role: {self.role.value!r} may not {permission.value}")

    def sees(self, tenant: str) -> bool:
        return self.tenant in (EVERY_TENANT, tenant)

    def need_every_tenant(self, what: str) -> None:
        if self.tenant != EVERY_TENANT:
            raise Forbidden(f"tenant: {what} are of all tenants, and this token is of one")

    def tenant_for(self, asked: str | None) -> str:
        """The tenant that something new belongs to."""
        if asked is None:
            return "default" if self.tenant == EVERY_TENANT else self.tenant
        if not self.sees(asked):
            raise Forbidden(f"tenant: {asked!r} is not the tenant of this token")
        return asked


OWNER = Caller("local", Role.ADMIN, EVERY_TENANT)
"""whoever may open the Unix socket, or comes over loopback where no tokens are configured"""


class Grant(msgspec.Struct, frozen=True):
    """A token, known only by its hash, and whom it stands for."""

    digest: bytes
    caller: Caller


def digest_of(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def caller_of(token: str, grants: Sequence[Grant]) -> Caller | None:
    """The caller a token stands for. Takes as long for a wrong token as for a right one, and for each of them."""
    given = digest_of(token)
    found = None
    for grant in grants:
        if hmac.compare_digest(grant.digest, given):
            found = grant.caller
    return found
