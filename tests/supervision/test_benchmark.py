"""The benchmark of supervisors: each of them is started, measured and ended, and what is not there is left out."""

from pathlib import Path

import pytest

from interlock.bench import supervision
from interlock.bench.supervision import Kept
from interlock.model.error import InterlockError
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
    if not supervision.installed(name):
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
    figures = supervision.summary({"interlock": ours, "supervisord": peer})
    assert figures.circus is None
    assert figures.supervisord is not None
    assert figures.supervisord.kills == 3
    assert (figures.interlock.restart_p50_ms, figures.supervisord.restart_p50_ms) == (4.0, 2000.0)
    assert (figures.interlock.restart_p99_ms, figures.supervisord.restart_p99_ms) == (6.0, 3000.0)
    assert figures.supervisord.interlock_restarts_faster == 500.0
    assert figures.supervisord.interlock_memory_ratio == 1.25
    assert (figures.supervisord.idle_us_per_second, figures.supervisord.interlock_idle_ratio) == (400.0, 0.0)
    rows = list(supervision.rows(figures))
    assert rows[0] == ("child killed to running again, p50", "4.0 ms", "1")
    assert (rows[1][1], rows[1][2]) == ("2,000.0 ms", "Interlock is 500.0x")
    assert rows[-1] == ("supervision by circus", "not installed", "")
    assert len(rows) == 9
