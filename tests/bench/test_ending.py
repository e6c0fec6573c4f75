"""What `interlock bench` starts goes with it, however it ends."""

import signal
from pathlib import Path

import pytest

from tests.helpers.places import folder
from tests.helpers.processes import processes_of, wait_until
from tests.helpers.server import Command

__all__ = ["folder"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_a_benchmark_that_is_ended(folder: Path, number: signal.Signals) -> None:
    bench = Command(folder, "interlock.cli", "bench", "--runs", "300", "--rounds", "1", name="bench")
    bench.extra = {"INTERLOCK_BENCH_DIR": str(folder)}
    bench.begin()

    def scheduler() -> bool:
        return any("interlock.cli up" in one.command for one in processes_of(folder))

    wait_until(scheduler, "it has started a scheduler")
    bench.send(number)
    assert bench.ended(60) == (-number if number is signal.SIGKILL else 128 + number), bench.said
    wait_until(lambda: not processes_of(folder), "its processes have ended")
    assert number is signal.SIGKILL or not list(folder.glob("interlock-bench-*"))
