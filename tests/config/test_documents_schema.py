"""The published schema of documents is current, and knows what the reader knows."""

import json
from typing import Any

import jsonschema_rs
import pytest

from interlock.config.documents import FIELDS
from interlock.config.schema import documents_schema
from interlock.config.services import PARTS
from tests.helpers.server import ROOT

RUN = {"process": ["a"]}


def test_the_published_schema_is_current() -> None:
    written = (ROOT / "docs" / "services.schema.json").read_text()
    assert written == json.dumps(documents_schema(), indent=2) + "\n", (
        "run: python -m interlock.config.schema > docs/services.schema.json"
    )


def test_it_has_the_fields_that_are_read() -> None:
    for schema in documents_schema()["oneOf"]:
        assert set(schema["properties"]) == {"kind", *FIELDS[schema["title"]]}
        for name, part in PARTS.items():
            found = schema["properties"].get(name)
            if found is not None:
                found = found.get("anyOf", [found])[0]
                assert tuple(found["properties"]) == part.__struct_fields__


@pytest.mark.parametrize(
    ("document", "fits"),
    [
        ({"kind": "Service", "id": "a", "run": RUN}, True),
        ({"kind": "Group", "id": "a", "group": "b", "strategy": "one_for_all"}, True),
        (
            {"kind": "Service", "id": "a", "run": {"container": {"image": "x", "memory": "1GiB", "ports": ["1:2"]}}},
            True,
        ),
        ({"kind": "Service", "id": "a", "run": {"container": "x"}}, True),
        ({"kind": "Service", "id": "a", "run": {"function": "x/y.py:z"}}, True),
        ({"kind": "Service", "id": "a"}, False),
        ({"kind": "Group", "id": "a", "run": RUN}, False),
        ({"kind": "Job", "id": "a"}, False),
        ({"kind": "Service", "id": "a b", "run": RUN}, False),
        ({"kind": "Service", "id": "latest", "run": RUN}, False),
        ({"kind": "Service", "id": "a", "run": RUN, "ready": {"log": "up in * s"}}, True),
        ({"kind": "Service", "id": "a", "run": RUN, "ready": {"log": 8080}}, True),
        ({"kind": "Service", "id": "a", "run": RUN, "ready": {"log": ""}}, False),
        ({"kind": "Service", "id": "a", "run": RUN, "ready": {"log": "**"}}, False),
        ({"kind": "Service", "id": "a", "run": {}}, False),
        ({"kind": "Service", "id": "a", "run": {"process": ["a"], "function": "a:b"}}, False),
        ({"kind": "Service", "id": "a", "run": {"process": []}}, False),
        ({"kind": "Service", "id": "a", "run": {"function": "a"}}, False),
        ({"kind": "Service", "id": "a", "run": {"container": {}}}, False),
        ({"kind": "Service", "id": "a", "run": RUN, "restart": "maybe"}, False),
        ({"kind": "Service", "id": "a", "run": RUN, "ready": {"htp": "x"}}, False),
        ({"kind": "Service", "id": "a", "run": RUN, "ready": {"log": "x", "tcp": "a:1"}}, False),
        ({"kind": "Service", "id": "a", "run": RUN, "backoff": {"initial": -1}}, False),
        ({"kind": "Service", "id": "a", "run": RUN, "env": {"A": []}}, False),
    ],
)
def test_it_tells_right_from_wrong(document: Any, fits: bool) -> None:
    assert jsonschema_rs.Draft202012Validator(documents_schema()).is_valid(document) is fits
