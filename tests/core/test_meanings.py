"""Fields declare their meaning with their type: OpenAPI and the reference are made from it."""

import msgspec
import pytest

from interlock.interface import run_view
from interlock.interface.operations import OPERATIONS

TYPES = {
    kind
    for one in OPERATIONS
    for kind in (one.answer, one.body, one.query)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
}
_, SCHEMAS = msgspec.json.schema_components([*TYPES, *run_view.EVENT_NAMES], ref_template="{name}")


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_every_field_has_a_meaning(name: str) -> None:
    for field, schema in SCHEMAS[name].get("properties", {}).items():
        assert schema.get("description", "").endswith("."), field
