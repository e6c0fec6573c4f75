"""The benchmark of the timetable, in little: each scheduler fires what it should, and is measured while it does."""

from pathlib import Path

import pytest

from bench import apscheduler_peer, contest, installed, registered, timetable
from bench.processes import Usage
from bench.timetable import Fired
from bench.timetable_figures import METRICS, joined
from tests.helpers.places import folder

__all__ = ["folder"]

COUNT, SECONDS = 100, 1.0
"""each of them fires once in the window, or, at its very borders, not quite"""


def check(found: Fired) -> None:
    assert found.lateness
    assert COUNT - 2 <= len(found.lateness) + found.missed < 2 * COUNT, "on a busy machine the window is longer"
    assert min(found.lateness) >= -0.001, "nothing is to begin before its time"
    assert 0 < found.processor < 10
    assert found.memory > 2**20


def test_interlock_is_measured_while_it_fires(folder: Path) -> None:
    found = timetable.measure("interlock", folder, COUNT, interval=SECONDS, seconds=SECONDS)
    assert found.missed == 0
    check(found)


@pytest.mark.parametrize("store", apscheduler_peer.STORES)
def test_a_peer_is_measured_in_the_same_way(folder: Path, store: str) -> None:
    if not installed(*apscheduler_peer.STORES[store]):
        pytest.skip("APScheduler is not installed")
    check(timetable.measure(store, folder, COUNT, interval=SECONDS, seconds=SECONDS))


def test_schedules_of_which_none_is_due_are_loaded_and_do_nothing(folder: Path) -> None:
    found = registered.measure(folder, 1000, idle=0.2, rest=0.0)
    assert 0 < found.started < registered.LIMIT
    assert found.memory > 2**20
    assert 0 <= found.processor < 2


def test_what_has_not_begun_when_the_window_is_over_was_missed() -> None:
    used = Usage(start=100.0, end=190.0, memory=1000, processor=0.5)
    firsts = {0: 95.0, 1: 101.0, 2: 189.0, 3: 190.0}
    noted = [(0, 95.2), (0, 155.25), (1, 101.5), (2, 189.1), (3, 190.1)]
    found = timetable.judge(used, firsts, 60.0, noted)
    assert [round(late, 3) for late in found.lateness] == [0.5, 0.25, 0.1]
    assert found.missed == 1, "the second time of the second job"


def test_figures_ratios_and_what_is_not_installed() -> None:
    ours = joined(Fired(lateness=[0.001, 0.002, 0.003], missed=0, processor=0.0006, memory=3000), 10, 1000)
    peer = joined(Fired(lateness=[0.004], missed=2, processor=0.002, memory=900), 10, 1000)
    none = joined(Fired(lateness=[], missed=3, processor=0.1, memory=1000), 10, 1000)
    assert ours == {
        "fires": 3, "missed": 0, "processor_us_per_fire": 200.0, "bytes_per_schedule": 200, "late_p50_ms": 2.0,
        "late_p99_ms": 3.0,
    }  # fmt: skip
    assert peer["bytes_per_schedule"] == 0
    found = list(contest.rows("10 schedules", METRICS, {"interlock": ours, "memory": peer, "SQLite": none}, ["other"]))
    assert found[:3] == [
        ("10 schedules: processor time a fire", "200.0 µs", ""),
        ("  memory", "2,000.0 µs", "10.00 of Interlock's"),
        ("  SQLite", "none", ""),
    ]
    assert found[-1] == ("10 schedules: other", "not installed", "")
