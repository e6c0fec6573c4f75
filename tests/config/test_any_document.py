"""Whatever a file says: services come of it, or one error that names every fault by its line."""

import json
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.config.documents import FIELDS, parse
from interlock.config.faults import Faults
from interlock.config.schema import documents_schema
from interlock.config.services import CONTAINER, PARTS, RUNS, build
from interlock.model.error import BadConfig
from interlock.supervision import Child

LINE = re.compile(r"any\.yaml(:[1-9][0-9]*)?: .+")


def outcome(text: str) -> list[Child] | None:
    """The children, or None if there is a fault, which must be told as it should be."""
    faults = Faults()
    try:
        documents = list(parse(text, "any.yaml", faults))
        return build(documents, (), "", faults)
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
    ]
)
VALUES = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(SCALARS.map(str), SCALARS, max_size=2)


def some_of(names: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from([*names, "other"]), VALUES, max_size=4)


DOCUMENTS = st.fixed_dictionaries(
    {"kind": st.sampled_from([*FIELDS, "Other"])},
    optional={
        name: st.one_of(VALUES, some_of(PARTS[name].__struct_fields__ if name in PARTS else RUNS))
        for name in FIELDS["Service"]
        if name != "run"
    }
    | {"run": some_of(RUNS) | st.fixed_dictionaries({"container": some_of(CONTAINER)})},
)


@settings(max_examples=200)
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
    import jsonschema_rs

    children = outcome(json.dumps(document))
    assert children is not None
    assert [child.name for child in children] == [document["id"]]
    assert jsonschema_rs.Draft202012Validator(documents_schema()).is_valid(document)
