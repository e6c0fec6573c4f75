"""Lanes in documents: what is read, what is refused, and what overrides them."""

import pytest

from interlock.config import Settings
from interlock.config.sources import load
from interlock.core.state import DEFAULT_LANES
from interlock.error import BadConfig
from interlock.model.lane import LaneSpec, with_limits
from tests.config.writing import put, refused

LANE = "kind: Lane\nid: reports\nlimit: 5\n"
JOB = "---\nkind: Job\nid: reports\nlane: reports\nrun: {process: [dump]}\n"


@pytest.mark.behaviour("LAN-1", "LAN-2")
def test_a_document_declares_a_lane_for_every_file() -> None:
    # A job before its lane, and of the same name: they are two kinds of things.
    paths = [put(JOB, "a.yaml"), put(LANE, "b.yaml")]
    loaded = load(paths, lanes=["main"])
    assert loaded.lanes == {"reports": LaneSpec(limit=5)}
    assert loaded.jobs[0].job.lane == "reports"
    assert loaded.summary() == "1 job, 0 services, 0 groups and 1 lane"
    with pytest.raises(BadConfig, match=r"^a.yaml:4: lane: 'reports' is not declared"):
        load(paths[:1], lanes=["main"])


@pytest.mark.behaviour("LAN-1")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kind: Lane\nid: reports\n", ["a.yaml:1: limit: missing"]),
        ("kind: Lane\nlimit: 5\n", ["a.yaml:1: id: missing"]),
        ("kind: Lane\nid: a b\nlimit: 5\n", ["a.yaml:2: id: 'a b' is not"]),
        ("kind: Lane\nid: reports\nlimit: 0\n", ["a.yaml:3: limit: 0 is not"]),
        ("kind: Lane\nid: reports\nlimit: -1\n", ["a.yaml:3: limit: -1 is not"]),
        ("kind: Lane\nid: reports\nlimit: many\n", ["a.yaml:3: limit: 'many' is not"]),
        (LANE + "rate: 0/s\n", ["a.yaml:4: rate: '0/s' is not"]),
        (LANE + "rate: 0.000000001/d\n", ["a.yaml:4: rate: '0.000000001/d' is not"]),
        (LANE + "rate: 5/m\nburst: 0\n", ["a.yaml:5: burst: 0 is not"]),
        (LANE + "slots: 3\n", ["a.yaml:4: slots: unknown field"]),
        (LANE + "---\n" + LANE, ["a.yaml:6: id: 'reports' is declared twice, first at a.yaml:2"]),
    ],
)
def test_a_faulty_lane_is_refused_and_its_jobs_are_not(text: str, says: list[str]) -> None:
    put(text + JOB)
    with pytest.raises(BadConfig) as caught:
        load(["a.yaml"], lanes=["main"])
    assert len(str(caught.value).splitlines()) == 1
    assert refused("a.yaml") == says


@pytest.mark.behaviour("LAN-1")
def test_settings_override_documents_and_documents_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLOCK_LANE_NIGHT", "7")
    settings = Settings(lanes={"reports": 30})
    declared = with_limits({"reports": 5, "night": 5, "main": 5}) | {"other": LaneSpec(limit=5, rate=2.0, burst=3)}
    found = settings.every_lane(declared)
    assert found == {**with_limits({**DEFAULT_LANES, "reports": 30, "night": 7, "main": 5}), "other": declared["other"]}
    settings = Settings(lanes={"other": 9})
    assert settings.every_lane(declared)["other"] == LaneSpec(limit=9, rate=2.0, burst=3)
