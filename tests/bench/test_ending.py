"""Servers that a benchmark has started go with it, however it ends."""

import signal
from pathlib import Path

import pytest

from bench import installed
from bench.pgqueuer_peer import NEEDS
from tests.helpers.places import folder
from tests.helpers.processes import processes_of, wait_until
from tests.helpers.server import Command

__all__ = ["folder"]


@pytest.mark.parametrize(
    ("program", "server", "number"),
    [
        (("interlock.cli", "bench"), "interlock.cli up", signal.SIGTERM),
        (("interlock.cli", "bench"), "interlock.cli up", signal.SIGINT),
        (("interlock.cli", "bench"), "interlock.cli up", signal.SIGKILL),
        (("bench", "rates"), "bin/postgres -D", signal.SIGTERM),
        (("bench", "rates"), "bin/postgres -D", signal.SIGKILL),
    ],
)
def test_nothing_is_left_of_a_benchmark_that_is_ended(
    folder: Path, program: tuple[str, str], server: str, number: signal.Signals
) -> None:
    if "postgres" in server and not installed(*NEEDS):
        pytest.skip("PgQueuer is not installed")
    folder.chmod(0o711)  # as root, PostgreSQL runs as another user
    bench = Command(folder, *program, "--runs", "300", "--rounds", "1", name="bench")
    bench.extra = {"INTERLOCK_BENCH_DIR": str(folder)}
    bench.begin()

    def is_up() -> bool:
        return any(server in one.command for one in processes_of(folder))

    wait_until(is_up, "it has started a server")
    bench.send(number)
    assert bench.ended(60) == (-number if number is signal.SIGKILL else 128 + number), bench.said
    wait_until(lambda: not processes_of(folder), "its processes have ended")
    assert number is signal.SIGKILL or not list(folder.glob("interlock-bench-*"))
