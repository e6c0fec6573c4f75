"""The question about tenants, with its answer."""

from interlock.model.request import Answer, Request
from interlock.model.tenant import TenantList


class TenantsReport(Answer, frozen=True):
    found: TenantList


class AskTenants(Request[TenantsReport], frozen=True):
    only_tenant: str | None = None  # the only tenant that the answer may name
