"""Getting started works, line by line; so do the examples for Python and for HTTP, on the same jobs."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, blocks, run_shell
from tests.helpers.places import clean_folder
from tests.helpers.server import Server, environment

GETTING_STARTED = "docs/getting-started.md"


def put_files(document: str, folder: Path) -> list[str]:
    """Write the files that a document shows; returns their names."""
    found = [block for block in blocks(document) if block.file is not None]
    for block in found:
        (folder / str(block.file)).write_text(block.text)
    return [str(block.file) for block in found]


def shell_of(document: str) -> str:
    return "set -e\n" + "\n".join(block.text for block in blocks(document) if block.language == "sh")


@pytest.mark.behaviour("RUN-6", "RUN-10")
def test_getting_started(folder: Path) -> None:
    put_files(GETTING_STARTED, folder)
    said = run_shell(shell_of(GETTING_STARTED), folder)
    assert said.count('"hello Ann"\n') == 2, said
    assert re.search(r"^\w{28} hello Ann$", said, re.M), said
    assert re.findall(r"\tpage (\d) written\n", said)[:8] == list("12345678"), said
    # The second attempt went on after the checkpoint.
    assert '"4 pages"\n' in said, said
    retried = said.partition('"4 pages"')[2]
    assert "state\tretrying\t" in retried, said
    assert "attempts\t2 (1 failed)\n" in retried, said
    assert re.findall(r"^log\t.*page (\d) written$", retried, re.M)[:4] == list("1234"), said
    assert "state\tcancelled\n" in retried, said
    assert "not needed any more" in retried, said
    assert "exit code 5\n" in retried, said
    assert "fine: 3 jobs, 0 services, 0 groups and 0 lanes\n" in said, said
    assert "stopped: " in said.splitlines()[-1], said


@pytest.fixture(scope="module")
def served() -> Iterator[Server]:
    """The jobs of getting started, served in the folder where commands and clients look."""
    with clean_folder() as place:
        put_files(GETTING_STARTED, place)
        with Server(place, "--http", "127.0.0.1:0", "--drain", "1s", target="jobs:app") as server:
            yield server


def python(folder: Path, script: str) -> str:
    done = subprocess.run(
        [sys.executable, script], cwd=folder, env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_examples_for_python(served: Server) -> None:
    names = put_files("docs/python.md", served.folder)
    said = {name: python(served.folder, name) for name in names}
    assert said["report.py"].splitlines()[:2] == ["hello Ann", "3 pages"]
    assert "succeeded" in said["report.py"]
    assert "idempotency_conflict" in said["errors.py"]
    assert "bad_payload" in said["errors.py"]
    assert "cancelled" in said["errors.py"]
    assert re.search(r"^page 1 of 5|^page \d of 5", said["async_report.py"], re.M), said
    assert said["async_report.py"].splitlines()[-1] == "5 pages"
    assert "page 5 written" in said["events.py"]
    assert said["schedule.py"] == "2 pages\n"
    assert sorted(said["many.py"].splitlines()[:3]) == ["1 pages", "2 pages", "3 pages"]
    assert said["many.py"].splitlines()[3] == "['3 pages', '1 pages', '2 pages']"
    assert said["mapped.py"].splitlines()[:3] == ["3 pages", "1 pages", "2 pages"]
    assert said["mapped.py"].splitlines()[3].startswith("1 items[1]: payload of 'report'")


def test_every_python_block_for_clients_is_a_file() -> None:
    assert all(block.file for block in blocks("docs/python.md") if block.language == "python")


def test_the_examples_for_http(served: Server) -> None:
    script = shell_of("docs/http.md").replace("http://127.0.0.1:8420", served.url)
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=served.folder, env=environment(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    said = done.stdout
    assert done.returncode == 0, said + done.stderr
    assert said.count('"state":"succeeded"') >= 2, said
    assert '"result":"hello Ann"' in said, said
    assert '{"ids":[' in said, said
    assert '"code":"unknown_field"' in said, said
    assert "event: hello\n" in said, said
    assert "event: log\n" in said, said
    assert '"state":"cancelled"' in said, said
    assert said.count('"id":"nightly","source":"api"') >= 4, said
    assert re.search(r'"runs":\[\{"id":"\w+","state":"succeeded".*"origin":"trigger"', said), said
    assert '{"created":["nightly:1767229200","nightly:1767315600","nightly:1767402000"],"existing":[]}' in said, said
    assert '"alive":true' in said, said
    assert "interlock_runs_completed_total{" in said, said


def test_the_reference_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    from tools.http_reference import DOCUMENT, document

    monkeypatch.chdir(ROOT)
    assert document() == DOCUMENT.read_text(), "write it again with: python -m tools.http_reference"
