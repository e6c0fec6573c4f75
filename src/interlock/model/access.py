"""Access: roles, permissions, and the callers behind tokens."""

import hashlib
import hmac
from collections.abc import Sequence
from enum import StrEnum

import msgspec

from interlock.error import Forbidden


class Role(StrEnum):
    VIEWER = "viewer"  # sees runs, logs and events
    OPERATOR = "operator"  # also submits, cancels and acts on services
    APPROVER = "approver"  # also clears runs that wait for approval, and reads the audit
    ADMIN = "admin"  # everything
    WORKER = "worker"  # nothing over HTTP: executes runs
    GATEWAY = "gateway"  # nothing over HTTP: serves it on another machine, and is believed what its callers may


class Permission(StrEnum):
    READ = "read"
    SUBMIT = "submit"
    CANCEL = "cancel"
    OPERATE = "operate"  # act on services, and reload the files
    APPROVE = "approve"
    AUDIT = "read the audit"


PERMISSIONS: dict[Role, frozenset[Permission]] = {
    Role.VIEWER: frozenset({Permission.READ}),
    Role.OPERATOR: frozenset({Permission.READ, Permission.SUBMIT, Permission.CANCEL, Permission.OPERATE}),
    Role.APPROVER: frozenset({Permission.READ, Permission.APPROVE, Permission.AUDIT}),
    Role.ADMIN: frozenset(Permission),
    Role.WORKER: frozenset(),
    Role.GATEWAY: frozenset(),
}
LINK_ROLES = frozenset({Role.WORKER, Role.GATEWAY})
"""roles of programs that speak to a scheduler over its own links, and not over HTTP"""

EVERY_TENANT = "*"


class Caller(msgspec.Struct, frozen=True):
    """The sender of a request: a name, with a role in one tenant or in all."""

    name: str
    role: Role
    tenant: str
    pools: tuple[str, ...] = ()  # those that a worker may join; empty for all

    def need(self, permission: Permission) -> None:
        if permission not in PERMISSIONS[self.role]:
            raise Forbidden(f"role: {self.role.value!r} may not {permission.value}")

    def sees(self, tenant: str) -> bool:
        return self.tenant in (EVERY_TENANT, tenant)

    @property
    def only_tenant(self) -> str | None:
        return None if self.tenant == EVERY_TENANT else self.tenant

    def need_every_tenant(self, what: str) -> None:
        if self.tenant != EVERY_TENANT:
            raise Forbidden(f"tenant: {what} belong to all tenants, and this token to {self.tenant!r} alone")

    def tenant_for(self, asked: str | None) -> str:
        """Return the tenant of something new."""
        if asked is None:
            return "default" if self.tenant == EVERY_TENANT else self.tenant
        if not self.sees(asked):
            raise Forbidden(f"tenant: {asked!r} is not the tenant of this token")
        return asked

    def work_for(self, pool: str) -> frozenset[str] | None:
        """Return the tenants whose runs a worker may have, None for all; raise if it may not join the pool."""
        if self.pools and pool not in self.pools:
            raise Forbidden(f"pool: {pool!r} is not a pool of the token {self.name!r}; it has {', '.join(self.pools)}")
        return None if self.tenant == EVERY_TENANT else frozenset({self.tenant})


OWNER = Caller("local", Role.ADMIN, EVERY_TENANT)
"""the caller over the Unix socket, or over loopback where no tokens are configured"""


class Grant(msgspec.Struct, frozen=True):
    """A token, known only by its hash, and its caller."""

    digest: bytes
    caller: Caller


def digest_of(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def caller_of(token: str, grants: Sequence[Grant]) -> Caller | None:
    """Return the caller of a token. A wrong token takes as long as a right one."""
    given = digest_of(token)
    found = None
    for grant in grants:
        if hmac.compare_digest(grant.digest, given):
            found = grant.caller
    return found
