"""The application of a newcomer: its programs and tests run, and it stays short. tests/typed checks its types."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import interlock as il
from tests.docs.blocks import ROOT
from tests.helpers.places import clean_folder
from tests.helpers.processes import wait_until
from tests.helpers.server import Server, environment

NEWCOMER = ROOT / "examples" / "newcomer"
MOST_LINES = 150


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with clean_folder() as place:
        options = (str(NEWCOMER / "nightly.yaml"), "--http", "local", "--drain", "1s", "--workers", "1")
        with Server(place, *options, target="examples.newcomer.jobs:app") as running:
            yield running


def python(folder: Path, *arguments: str) -> list[str]:
    """Run a program as a newcomer would, and return the lines that it prints."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment(), capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_it_is_short() -> None:
    files = [path for path in NEWCOMER.rglob("*") if path.suffix in (".py", ".yaml")]
    assert sum(len(path.read_text().splitlines()) for path in files) <= MOST_LINES


def test_the_async_program_submits_waits_streams_and_cancels(server: Server) -> None:
    said = python(server.folder, "-m", "examples.newcomer.submit_async")
    *streamed, report, prints, cancelled = said
    assert "retrying" in streamed, "the first answer about foxes is a time-out"
    assert streamed[-1] == "succeeded", "the stream ends with the run"
    assert {line for line in streamed if "%" in line} <= {"50 % owls", "100 % foxes"}, "the latest progress is sent"
    assert report == "2030-01-31, about owls, about foxes"
    assert len(prints.split()) == 2, "a fingerprint of each finding"
    assert cancelled == "cancelled"


def test_the_sync_program_submits_waits_streams_and_cancels(server: Server) -> None:
    for _ in range(2):  # its key makes the second submit take the first run
        said = python(server.folder, "-m", "examples.newcomer.submit_sync")
        assert said == ["owls is done", "['about owls']", "cancelled"]


def test_its_jobs_and_its_service(server: Server) -> None:
    with il.Client(f"unix:{server.http_socket}") as client:
        assert {job.id: job.kind for job in client.jobs()} == {
            "research": "handler", "fingerprint": "handler", "watch": "handler", "clean-up": "handler",
            "disk": "process",
        }  # fmt: skip
        assert client.job("clean-up").schedule == il.cron("30 2 * * *", tz="Europe/Paris")
        assert client.trigger("disk").wait("30s") is il.State.SUCCEEDED
        wait_until(lambda: client.service("ticker").status == "running", "the service runs", 30)


def test_its_tests_pass(tmp_path: Path) -> None:
    arguments = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(tmp_path))
    assert "3 passed" in "\n".join(python(tmp_path, *arguments, str(NEWCOMER / "test_jobs.py")))
