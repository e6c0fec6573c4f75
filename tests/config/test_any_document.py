"""Whatever a file says: services and jobs come of it, or one error that names every fault by its line."""

import json
import re
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.config.documents import Faults, parse
from interlock.config.job_documents import read_job
from interlock.config.schema import documents_schema
from interlock.config.sources import KINDS, Loaded, build
from interlock.error import BadConfig
from interlock.fields.field import Nested
from interlock.fields.field_types import Kind, Optional

LINE = re.compile(r"any\.yaml(:[1-9][0-9]*)?: .+")


def outcome(text: str) -> Loaded | None:
    """What is declared, or None if there is a fault, which must be told as it should be."""
    faults = Faults()
    try:
        documents = list(parse(text, "any.yaml", faults))
        return build(documents, faults)
    except BadConfig as error:
        first, *rest = str(error).split("\n")
        for line in rest or [first]:
            assert LINE.fullmatch(line) or line.startswith("… and "), line
        return None


@given(st.text())
def test_any_text(text: str) -> None:
    outcome(text)


@given(st.text(alphabet=":-{}[]\"'&*!|>%@`#, \nkindServceGroupad1"))
def test_any_text_that_looks_like_yaml(text: str) -> None:
    outcome("kind: Service\n" + text)


SCALARS = st.sampled_from(
    [
        *(None, True, False, 0, -1, 1, 2**70, 0.5, -1e300, "", " ", "a", "b", "a b", "/", ".", "\0", "\x85", "\u2028"),
        *("5s", "-1s", "1e999d", "512MiB", "always", "never", "one_for_all", "stop_child", "a:b", "x.py:y", "*", "a*"),
        *("http://h/", "http://[", "127.0.0.1:80", "[::1]:1", "h:99999999", "A" * 400),
        *(
            "* * * * *",
            "0 0 31 2 *",
            "Europe/Paris",
            "/etc/passwd",
            "2030-01-01",
            "0001-01-01T00:00+14:00",
            "9999-12-31",
        ),
        *("latest", "all", "24:00"),
    ]
)
VALUES = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(SCALARS.map(str), SCALARS, max_size=2)


def some_of(names: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from([*names, "other"]), VALUES, max_size=4)


def values_of(kind: Kind) -> st.SearchStrategy[Any]:
    """Anything, and where a mapping is taken, one with some of its fields."""
    kind = kind.kind if isinstance(kind, Optional) else kind
    if not isinstance(kind, Nested):
        return VALUES
    one = st.sampled_from([*kind.struct.one_of, "other"]).flatmap(lambda name: some_of([name]))
    return (
        VALUES
        | some_of(kind.fields)
        | one
        | st.fixed_dictionaries({}, optional={name: values_of(field.kind) for name, field in kind.fields.items()})
    )


def document_of(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    fields, _ = KINDS[kind]
    optional = {name: values_of(field.kind) for name, field in fields.items()}
    return st.fixed_dictionaries({"kind": st.just(kind)}, optional=optional)


JOBS = document_of("Job")
OTHERS = document_of("Service") | document_of("Group") | document_of("Lane") | some_of(["kind", "id"])
DOCUMENTS = OTHERS | JOBS


@settings(max_examples=300)
@given(st.lists(DOCUMENTS, max_size=3))
def test_any_values_where_fields_are(documents: list[Any]) -> None:
    # JSON is YAML, apart from characters that YAML writes otherwise.
    outcome("\n---\n".join(json.dumps(document) for document in documents))


GOOD = st.fixed_dictionaries(
    {"kind": st.just("Service"), "id": st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True)}
    | {"run": st.fixed_dictionaries({"process": st.lists(st.sampled_from(["a", "-b", 5, 1.5, True]), min_size=1)})},
    optional={
        "restart": st.sampled_from(["always", "on_failure", "never"]),
        "stop_timeout": st.sampled_from(["10s", 0, 1.5, "1.5h"]),
        "env": st.dictionaries(st.sampled_from(["A", "B"]), st.sampled_from([None, True, 5, 1.5, "text"])),
        "cwd": st.sampled_from([None, "/", "below"]),
        "backoff": st.fixed_dictionaries({}, optional={"initial": st.just("1s"), "multiplier": st.floats(1, 1000)}),
        "budget": st.fixed_dictionaries({}, optional={"max_restarts": st.integers(0, 9)}),
        "ready": st.sampled_from([None, {"tcp": "h:1"}, {"log": "x", "timeout": 5}, {"delay": "1s"}]),
        "alive": st.sampled_from([None, {"http": "http://h/", "failures": 2}]),
        "limits": st.sampled_from([{}, {"memory": "1GiB", "cpu": 5}, {"files": 3}]),
    },
)


@given(GOOD)
def test_what_is_right_is_taken_and_fits_the_schema(document: dict[str, Any]) -> None:
    loaded = outcome(json.dumps(document))
    assert loaded is not None
    assert [child.name for child in loaded.children] == [document["id"]]
    assert jsonschema_rs.Draft202012Validator(documents_schema()).is_valid(document)


TIMES = st.sampled_from(
    [
        {"once": True, "wait": "90d"},
        {"at": "2030-01-31T02:00:00Z", "keep": True},
        {"at": "2030-01-31 02:00", "tz": "Europe/Paris"},
        {"every": "60s", "wait": "10s"},
        {"every": 1, "cron": None, "jitter": "5s"},
        {"cron": "*/5 2 * * mon", "tz": "Australia/Lord_Howe", "catch_up": "all", "catch_up_max": 3},
    ]
)
GOOD_JOBS = st.fixed_dictionaries(
    {"kind": st.just("Job"), "id": st.from_regex(r"[a-z][a-z0-9.-]{0,8}", fullmatch=True)}
    | {"run": st.sampled_from([{"process": ["a", 5]}, {"shell": "a | b"}, {"shell": True}])},
    optional={
        "schedule": st.none() | TIMES,
        "payload": st.none() | st.dictionaries(st.text("ab"), st.sampled_from([None, 1.5, "x", [1], {"c": True}])),
        "lane": st.sampled_from(["cron", 5]),
        "retry": st.fixed_dictionaries({}, optional={"max_retries": st.integers(0, 9), "max_delay": st.just("1m")}),
        "deadline": st.sampled_from([None, "1h", 0.5]),
        "max_runtime": st.sampled_from([None, "1h", 0.5]),
        "max_runtime_per_attempt": st.booleans(),
        "max_crashes": st.integers(0, 9),
        "topic": st.sampled_from([None, "a.b", 5]),
        "capabilities": st.sampled_from([[], ["network", "fs:write"]]),
        "sensitivity": st.sampled_from(["public", "secret"]),
        "grace": st.sampled_from(["0s", 5]),
        "constraints": st.sampled_from([{}, {"max_concurrent_runs": 3}]),
        "env": st.dictionaries(st.sampled_from(["A", "B"]), st.sampled_from([None, True, 5, 1.5, "text"])),
        "cwd": st.sampled_from([None, "/", "below"]),
        "limits": st.sampled_from([{}, {"memory": "1GiB", "cpu": 5}, {"files": 3}]),
        "stdin": st.booleans(),
    },
)


@pytest.mark.behaviour("TIM-12")
@given(GOOD_JOBS)
def test_a_job_that_is_right_is_taken_and_fits_the_schema(document: dict[str, Any]) -> None:
    loaded = outcome(json.dumps(document))
    assert loaded is not None
    assert [one.job.id for one in loaded.jobs] == [document["id"]]
    assert jsonschema_rs.Draft202012Validator(documents_schema()).is_valid(document)
    # The same as the body of a request, where paths are absolute.
    assert read_outcome(document | {"cwd": "/"}) == loaded.jobs[0].job if document.get("cwd") == "/" else True
    assert read_outcome(document | {"cwd": "/"}) is not None


@given(JOBS)
def test_any_values_in_the_body_of_a_request(document: dict[str, Any]) -> None:
    read_outcome(document)


def read_outcome(document: dict[str, Any]) -> Any:
    try:
        body = json.loads(json.dumps(document))
        return read_job(body, body["id"] if isinstance(body.get("id"), str) else "a")
    except BadConfig:
        return None
