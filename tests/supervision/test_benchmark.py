"""The benchmark of supervisors: each of them is started, measured and ended, and what is not there is left out."""

from pathlib import Path

import pytest

from bench import contest, installed, supervision
from bench.supervision import Kept
from interlock.error import InterlockError
from tests.helpers.places import folder

__all__ = ["folder"]


def test_interlock_is_measured_as_a_whole(folder: Path) -> None:
    kept = supervision.measure("interlock", folder, children=3, idle=0.05, rest=0.0, kills=3)
    assert len(kept.restarts) == 3
    assert min(kept.restarts) > 0
    assert kept.memory > 2**20
    assert kept.processor >= 0


@pytest.mark.parametrize("name", [name for name in supervision.SUPERVISORS if name != "interlock"])
def test_a_peer_starts_its_children_and_is_measured(folder: Path, name: str) -> None:
    if not installed(supervision.SUPERVISORS[name][0]):
        pytest.skip(f"{name} is not installed")
    kept = supervision.measure(name, folder, children=1, idle=0.05, rest=0.0, kills=0)
    assert kept.restarts == []
    assert kept.memory > 2**20


def test_a_supervisor_that_does_not_start_is_an_error_with_its_last_words(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        supervision.SUPERVISORS, "broken", ("broken", lambda *_: ["sh", "-c", "echo first; echo it has no settings"])
    )
    with pytest.raises(InterlockError, match=r"^bench: broken did not start its children: it has no settings$"):
        supervision.measure("broken", folder, children=1)


def test_ratios_and_a_peer_that_is_not_installed() -> None:
    ours = [Kept(restarts=[0.002, 0.004, 0.006], memory=20 * 2**20, processor=0.0)]
    peer = [
        Kept(restarts=[1.0], memory=10 * 2**20, processor=0.0004),
        Kept(restarts=[2.0, 3.0], memory=16 * 2**20, processor=0.0002),
        Kept(restarts=[], memory=16 * 2**20, processor=0.0004),
    ]
    found = {"interlock": supervision.joined(ours), "supervisord": supervision.joined(peer)}
    assert found["supervisord"] == {
        "kills": 3, "restart_p50_ms": 2000.0, "restart_p99_ms": 3000.0, "memory_mib": 16.0, "idle_us_per_second": 400.0,
    }  # fmt: skip
    rows = list(contest.rows("supervision", supervision.METRICS, found, ["circus"]))
    assert rows[:2] == [
        ("supervision: child killed to running again, p50", "4.0 ms", ""),
        ("  supervisord", "2,000.0 ms", "500.00 of Interlock's"),
    ]
    assert rows[7] == ("  supervisord", "400.0 µs/s", ""), "Interlock's is 0"
    assert rows[8:] == [("supervision: circus", "not installed", "")]
