"""The benchmark of the timetable, in little: each scheduler fires what it should, and is measured while it does."""

from pathlib import Path

import pytest

from interlock.bench import apscheduler_peer, registered, timetable
from interlock.bench.report import Part, read_part
from interlock.bench.timetable import Fired
from interlock.bench.timetable_figures import Timetable, Waiting, compare, joined, rows
from interlock.model.error import BadValue
from tests.helpers.places import folder

__all__ = ["folder"]

COUNT, SECONDS = 100, 1.0
"""each of them fires once in the window, or, at its very borders, not quite"""


def check(found: Fired) -> None:
    assert found.missed == 0
    assert COUNT - 2 <= len(found.lateness) < 2 * COUNT, "on a busy machine the window is longer"
    assert min(found.lateness) >= -0.001, "nothing is to begin before its time"
    assert 0 < found.processor < 10
    assert found.memory > 2**20


def test_interlock_is_measured_while_it_fires(folder: Path) -> None:
    check(timetable.measure("interlock", folder, COUNT, interval=SECONDS, seconds=SECONDS))


@pytest.mark.parametrize("store", apscheduler_peer.STORES)
def test_a_peer_is_measured_in_the_same_way(folder: Path, store: str) -> None:
    if not apscheduler_peer.installed(store):
        pytest.skip("APScheduler is not installed")
    check(timetable.measure(store, folder, COUNT, interval=SECONDS, seconds=SECONDS))


def test_schedules_of_which_none_is_due_are_loaded_and_do_nothing(folder: Path) -> None:
    found = registered.measure(folder, 1000, idle=0.2, rest=0.0)
    assert 0 < found.started < registered.LIMIT
    assert found.memory > 2**20
    assert 0 <= found.processor < 2


def test_what_has_not_begun_when_the_window_is_over_was_missed() -> None:
    window = timetable.Window(start=100.0, end=190.0, memory=1000, processor=0.5)
    firsts = {0: 95.0, 1: 101.0, 2: 189.0, 3: 190.0}
    noted = [(0, 95.2), (0, 155.25), (1, 101.5), (2, 189.1), (3, 190.1)]
    found = window.found(firsts, 60.0, noted)
    assert [round(late, 3) for late in found.lateness] == [0.5, 0.25, 0.1]
    assert found.missed == 1, "the second time of the second job"


def test_figures_ratios_and_what_is_not_installed() -> None:
    ours = joined(Fired(lateness=[0.001, 0.002, 0.003], missed=0, processor=0.0006, memory=3000), 10, 1000)
    peer = joined(Fired(lateness=[0.004], missed=2, processor=0.002, memory=900), 10, 1000)
    none = joined(Fired(lateness=[], missed=3, processor=0.1, memory=1000), 10, 1000)
    assert (ours.processor_us_per_fire, ours.bytes_per_schedule) == (200.0, 200)
    assert (ours.late_p50_ms, ours.late_p99_ms) == (2.0, 3.0)
    assert peer.bytes_per_schedule == 0
    assert (none.processor_us_per_fire, none.late_p50_ms) == (None, None)
    compared = compare(10, {"interlock": ours, "SQLite": peer})
    assert compared.apscheduler_memory is None
    assert peer.interlock_processor_ratio == 0.1
    waiting = Waiting(
        schedules=5, start_seconds=1.5, bytes_per_schedule=800, idle_us_per_second=7, idle_us_per_second_without=6
    )
    told = Timetable(apscheduler=None, interval_seconds=60.0, window_seconds=90.0, compared=[compared], waiting=waiting)
    found = list(rows(told))
    assert found[0] == ("10 schedules: processor time a fire", "200.0 µs", "1")
    assert found[1][1:] == ("2,000.0 µs", "Interlock takes 0.1 of that")
    assert found[3][1:] == ("4.0 ms", "p99 4.0 ms; 2 missed")
    assert ("schedules in APScheduler", "not installed", "") in found
    assert found[-1] == ("processor time while none is due", "7 µs/s", "6 µs/s without any")


def test_a_part_is_chosen_by_its_name() -> None:
    assert read_part("timetable") is Part.TIMETABLE
    with pytest.raises(BadValue, match=r"^PART: 'time' is not one of all, timetable$"):
        read_part("time")
