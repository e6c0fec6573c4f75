"""Checks of declared tenants."""

from collections.abc import Collection, Sequence

from interlock.config.declarations import NamedDocument, check_names
from interlock.config.faults import Faults
from interlock.error import BadValue
from interlock.fields.field_types import did_you_mean
from interlock.model.tenant import TenantSpec


def every_tenant(
    declared: Sequence[NamedDocument[TenantSpec]], lanes: Collection[str] | None, faults: Faults
) -> dict[str, TenantSpec]:
    """Return the tenants by name. Refuse a name that two have, and a lane that is not among `lanes`."""
    check_names(((declaration.name, declaration.spot) for declaration in declared), faults)
    for declaration in declared:
        for number, lane in enumerate(declaration.value.lanes if declaration.value is not None else ()):
            if lanes is not None and lane not in lanes:
                path, rule = f"lanes[{number}]", f"declared; use one of {', '.join(lanes)}{did_you_mean(lane, lanes)}"
                declaration.document.refuse(path, str(BadValue(path, lane, rule)))
    return {declaration.name: declaration.value for declaration in declared if declaration.value is not None}
