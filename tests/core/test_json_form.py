"""Times are RFC 3339 in what is shown, and seconds in Python."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import inspect as types

import interlock.core
from interlock.fields.json_form import decode, encode
from interlock.interface.operations import OPERATIONS
from interlock.interface.run_view import EVENT_NAMES, RunInfo, info_of
from interlock.model.child_info import ChildInfo, Exit, Status
from interlock.model.delivery import Notice
from interlock.model.facets import Approval, Facets, Guarded, Hold, Judged, SessionFacet
from interlock.model.guard import Violation
from interlock.model.job_info import FireTimes
from interlock.model.policy.output import OutputRecord
from interlock.model.policy.scanner import OutputAction
from interlock.model.policy.verdict import Ruling
from interlock.model.schedule.schedule import Schedule
from interlock.model.state import State
from tests.contract.samples import make_run

LEAF = ChildInfo(path="a/b", name="b", kind="process", status=Status.FAILED, last_exit=Exit(at=1.5, code=3))
TREE = ChildInfo(path="", name="", kind="supervisor", status=Status.RUNNING, since=0.25, children=[LEAF])


def test_times_change_their_form_wherever_they_stand() -> None:
    shown = msgspec.json.decode(encode(TREE))
    assert (shown["since"], shown["next_try_at"]) == ("1970-01-01T00:00:00.250Z", None)
    assert shown["children"][0]["last_exit"]["at"] == "1970-01-01T00:00:01.500Z"
    assert shown["children"][0]["last_exit"]["code"] == 3
    assert decode(encode(TREE), ChildInfo) == TREE
    assert encode(FireTimes(times=[0.0, 1.0])) == b'{"times":["1970-01-01T00:00:00.000Z","1970-01-01T00:00:01.000Z"]}'


def test_a_field_that_is_left_out_stays_out_and_durations_stay_numbers() -> None:
    assert encode(Schedule(every=60.0)) == b'{"every":60.0}'
    assert encode({"schedules": [Schedule(at=2.0)]}) == b'{"schedules":[{"at":"1970-01-01T00:00:02.000Z"}]}'


FACETS = Facets(
    hold=Hold("ann", 1.0),
    session=SessionFacet(stamp=2.0),
    constraints=Guarded(violations=(Violation("checks", "no", 3.0), Violation("checks", "no", 4.0)), since=5.0),
    policy=Judged(Ruling.DENY, approval=Approval("hash", 6.0, 7.0, at=8.0)),
    output=OutputRecord(2, OutputAction.QUARANTINE, 9.0, took=0.5, released_at=10.0),
    labels={"at": "home"},
)


@pytest.mark.behaviour("OBS-4")
def test_times_in_facets_are_shown_like_all_others() -> None:
    info = info_of(make_run("r", facets=FACETS))
    assert info.facets["hold"]["at"] == 1.0
    shown = encode(info)
    assert encode(info) == shown, "the value itself does not change"
    facets = msgspec.json.decode(shown)["facets"]
    found = [
        facets["hold"]["at"], facets["session"]["stamp"], *(one["at"] for one in facets["constraints"]["violations"]),
        facets["constraints"]["since"],
        *(facets["policy"]["approval"][name] for name in ("asked_at", "expires_at", "at")),
        facets["output"]["at"], facets["output"]["released_at"],
    ]  # fmt: skip
    assert found == [f"1970-01-01T00:00:{second:02}.000Z" for second in range(1, 11)]
    assert (facets["output"]["took"], facets["labels"]) == (0.5, {"at": "home"})
    again = decode(shown, RunInfo)
    assert (again.facets["output"], encode(again)) == (info.facets["output"], shown)


INNER = ("type", "item_type", "value_type", "types", "item_types", "fields")
"""attributes of a type with the types inside it"""
TIME = re.compile(r"(.*_)?(at|since|until|times?|stamp|cutoff|start|end|deadline|expires)")


def unmarked_times(info: Any, name: str, seen: set[type]) -> Iterator[str]:
    """Yield the numbers in a type that are named like a time, and are not marked as one."""
    if isinstance(info, types.FloatType) and TIME.fullmatch(name.rpartition(".")[2]):
        yield name
    if isinstance(info, types.StructType) and info.cls in seen:
        return
    if isinstance(info, types.StructType):
        seen.add(info.cls)
        name = info.cls.__name__
    extra = getattr(info, "extra", None) or {}
    if "shape" in extra:
        yield from unmarked_times(types.type_info(extra["shape"]), name, seen)
    for inner in INNER if "time" not in extra else ():
        found = getattr(info, inner, ())
        for one in found if isinstance(found, tuple) else (found,):
            yield from unmarked_times(one, f"{name}.{one.name}" if isinstance(one, types.Field) else name, seen)


@pytest.mark.behaviour("OBS-4")
def test_every_time_that_is_shown_is_marked_as_one() -> None:
    kinds, seen = [*(one.answer for one in OPERATIONS), *EVENT_NAMES, Notice], set[type]()
    assert [name for kind in kinds for name in unmarked_times(types.type_info(kind), "", seen)] == []
    assert {RunInfo, Facets, Violation, OutputRecord, ChildInfo} <= seen


@pytest.mark.parametrize("data", [b'{"times": ["soon"]}', b'{"times": 5}', b'{"times": [null]}', b"[]", b"{"])
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(data, FireTimes)


def test_the_core_moves_runs_to_exactly_the_states_that_are_offered() -> None:
    text = "".join(path.read_text() for path in Path(interlock.core.__path__[0]).rglob("*.py"))
    used = {State[name] for name in re.findall(r"(?:\bState\.|p\.move\(run, )([A-Z_]+)\b", text)}
    assert used == set(State)
