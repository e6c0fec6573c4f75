"""The published schema of documents is current, and knows what the reader knows."""

import json
from typing import Any

import jsonschema_rs
import pytest

from interlock.config.schema import documents_schema, written
from interlock.config.sources import KINDS
from tests.helpers.server import ROOT

RUN = {"process": ["a"]}


def test_the_published_schema_is_current() -> None:
    published = (ROOT / "docs" / "documents.schema.json").read_text()
    assert published == written(), "run: python -m interlock.config.schema > docs/documents.schema.json"
    assert json.loads(published) == documents_schema()


def test_it_has_the_fields_that_are_read_each_with_its_meaning() -> None:
    schema = documents_schema()
    for kind in schema["oneOf"]:
        fields, _ = KINDS[kind["title"]]
        assert set(kind["properties"]) == {"kind", *fields}
    for part in (*schema["oneOf"], *schema["$defs"].values()):
        assert all(one.get("description") for name, one in part["properties"].items() if name != "kind")


def defaults(schema: Any) -> list[tuple[Any, Any]]:
    """Each part of a schema that has a default, and the default."""
    parts = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    found = [one for part in parts for one in defaults(part)]
    return [*found, (schema, schema["default"])] if isinstance(schema, dict) and "default" in schema else found


@pytest.mark.parametrize("name", ["documents", "interlock"])
def test_every_default_fits_its_own_schema(name: str) -> None:
    schema = json.loads((ROOT / "docs" / f"{name}.schema.json").read_text())
    found = defaults(schema)
    assert len(found) > 20
    for part, default in found:
        jsonschema_rs.validator_for({"$defs": schema.get("$defs", {}), **part}).validate(default)


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
        ({"kind": "Lane", "id": "a", "limit": 5}, True),
        ({"kind": "Lane", "id": "a", "limit": 0}, False),
        ({"kind": "Lane", "id": "a"}, False),
        ({"kind": "Job", "id": "a", "run": RUN}, True),
        ({"kind": "Job", "id": "a" * 128, "run": RUN, "schedule": None}, True),
        ({"kind": "Job", "id": "a", "run": {"shell": "x | y"}, "schedule": {"cron": "0 2 * * *", "tz": "UTC"}}, True),
        ({"kind": "Job", "id": "a", "run": {"function": "x:y"}, "schedule": {"once": True, "wait": "1d"}}, True),
        ({"kind": "Job", "id": "a", "run": RUN, "schedule": {"once": False, "every": 60, "at": None}}, True),
        ({"kind": "Job", "id": "a", "run": RUN, "constraints": {"max_concurrent_runs": 2}, "payload": {"x": 1}}, True),
        ({"kind": "Job", "id": "a", "run": RUN, "schedule": {"cron": "0 2 * * * *"}}, False),
        ({"kind": "Job", "id": "a", "run": RUN, "schedule": {"cron": "0 2 * * *", "every": "1m"}}, False),
        ({"kind": "Job", "id": "a", "run": RUN, "schedule": {"every": 0.5}}, False),
        ({"kind": "Job", "id": "a", "run": RUN, "schedule": {"once": False}}, False),
        ({"kind": "Job", "id": "a", "run": RUN, "schedule": {}}, False),
        ({"kind": "Job", "id": "a", "run": RUN, "schedule": {"once": True, "catch_up": "some"}}, False),
        ({"kind": "Job", "id": "a", "run": RUN, "constraints": {"max_allowed_run": "2h"}}, False),
        ({"kind": "Job", "id": "a", "run": {"container": "x"}, "env": {"A": "1"}, "start_timeout": "1m"}, True),
        (
            {"kind": "Job", "id": "a", "run": {"container": {"image": "x:1", "pull": "always", "mounts": ["/a:/b"]}}},
            True,
        ),
        ({"kind": "Job", "id": "a", "run": {"container": {"image": "X"}}}, False),
        ({"kind": "Job", "id": "a", "run": {"container": {"command": ["x"]}}}, False),
        ({"kind": "Job", "id": "a", "run": RUN, "restart": "always"}, False),
        ({"kind": "Job", "id": "a", "run": RUN, "payload": [1]}, False),
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
