"""Tenants and their limits, from documents."""

from collections.abc import Collection, Sequence
from typing import Annotated

import msgspec

from interlock.config.declarations import check_names
from interlock.config.documents import Document
from interlock.config.faults import Faults, Spot
from interlock.model.doc import doc
from interlock.model.error import BadValue
from interlock.model.field import Checked, read_fields, settable
from interlock.model.field_types import NAME_RULE, Word, did_you_mean
from interlock.model.job import NAME
from interlock.model.tenant import TenantSpec


class TenantId(Checked, frozen=True, kw_only=True):
    id: Annotated[str, doc("Name of the tenant."), Word(NAME.pattern, NAME_RULE.format(64))]


TENANT_FIELDS = {**settable(TenantId), **settable(TenantSpec)}


class DeclaredTenant(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    spec: TenantSpec | None  # None if it has a fault
    spot: Spot


def read_tenant(document: Document) -> DeclaredTenant:
    found = read_fields(TENANT_FIELDS, document.values, document.place)
    return DeclaredTenant(name=found.pop("id"), spec=TenantSpec(**found), spot=document.spot("id"))


def every_tenant(
    declared: Sequence[tuple[Document, DeclaredTenant]], lanes: Collection[str] | None, faults: Faults
) -> dict[str, TenantSpec]:
    """Return the tenants by name. Refuse a name that two have, and a lane that is not among `lanes`."""
    check_names(((one.name, one.spot) for _, one in declared), faults)
    tenants = {one.name: one.spec for _, one in declared if one.spec is not None}
    for document, one in declared:
        for number, lane in enumerate(one.spec.lanes if one.spec is not None else ()):
            if lanes is not None and lane not in lanes:
                path, rule = f"lanes[{number}]", f"declared; use one of {', '.join(lanes)}{did_you_mean(lane, lanes)}"
                document.refuse(path, str(BadValue(path, lane, rule)))
    return tenants
