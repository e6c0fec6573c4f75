"""Times are RFC 3339 in what is shown, and seconds in Python."""

import re
from pathlib import Path

import msgspec
import pytest

import interlock.core
from interlock.model.child_info import ChildInfo, Exit, Status
from interlock.model.job_info import FireTimes
from interlock.model.json_form import decode, encode
from interlock.model.schedule import Schedule
from interlock.model.state import POSSIBLE, State

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


@pytest.mark.parametrize("data", [b'{"times": ["soon"]}', b'{"times": 5}', b'{"times": [null]}', b"[]", b"{"])
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(data, FireTimes)


def test_the_core_moves_runs_to_exactly_the_states_that_are_offered() -> None:
    text = "".join(path.read_text() for path in Path(interlock.core.__path__[0]).glob("*.py"))
    used = {State[name] for name in re.findall(r"\bState\.([A-Z_]+)", text)}
    assert used == set(POSSIBLE)
