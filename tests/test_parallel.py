"""Tests in several processes, in folders of their own."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.places import lines_of
from tests.helpers.server import ROOT, environment

FILE = """
import os
import pytest

def note(text):
    with open("notes", "a") as file:
        file.write(f"{__name__} {os.getpid()} {text}\\n")

@pytest.fixture(scope="module", autouse=True)
def server():
    note("starts")
    yield
    note("ends")

@pytest.mark.parametrize("number", range(5))
def test_some(number, tmp_path):
    note(number)
"""


def tried(folder: Path, *options: str, **files: str) -> tuple[int, str]:
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.parallel", "-c", "pytest.ini", *options]
    env = environment(PYTHONPATH=str(ROOT), PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    ended = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120)
    return ended.returncode, ended.stdout + ended.stderr


def counts(said: str) -> dict[str, int]:
    return {name: int(number) for number, name in re.findall(r"(\d+) (passed|failed|skipped|error)", said)}


def test_a_file_stays_in_one_process_and_every_test_runs_once(tmp_path: Path) -> None:
    code, said = tried(tmp_path, "--processes", "3", **{f"file{number}": FILE for number in range(9)})
    assert (code, counts(said)) == (0, {"passed": 45})
    notes = [line.split() for line in lines_of(tmp_path / "notes")]
    assert len({process for _, process, _ in notes}) == 3
    for number in range(9):
        of_file = [(process, text) for name, process, text in notes if name == f"test_file{number}"]
        assert [text for _, text in of_file] == ["starts", "0", "1", "2", "3", "4", "ends"]
        assert len({process for process, _ in of_file}) == 1


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("assert [1] == [2]", "assert [1] == [2]"),
        ("print('a word')\n    raise ValueError('bad')", "a word"),
        ("import pytest; pytest.skip('no reason')", None),
        ("import os; os._exit(0)", "the process of this test ended with 0"),
        ("import os; os.kill(os.getpid(), 9)", "the process of this test ended with -9"),
        ("import sys; sys.exit(0)", "SystemExit: 0"),
        ("raise KeyboardInterrupt", "the process of this test ended with 2"),
    ],
)
def test_what_fails_is_counted_shown_and_tried_again(tmp_path: Path, body: str, expected: str | None) -> None:
    code, said = tried(tmp_path, "--processes", "2", good=FILE, other=f"def test_it() -> None:\n    {body}\n")
    assert (code, counts(said)) == (
        (0, {"passed": 5, "skipped": 1}) if expected is None else (1, {"passed": 5, "failed": 1})
    )
    if expected is not None:
        assert expected in said
        assert "FAILED test_other.py::test_it" in said
        assert counts(tried(tmp_path, "--last-failed", "--processes", "2")[1]).keys() <= {"failed"}


def test_a_fixture_that_fails_and_a_module_that_cannot_be_loaded(tmp_path: Path) -> None:
    code, said = tried(tmp_path, "--processes", "2", good=FILE, other=FILE.replace("yield", "raise ValueError"))
    assert (code, counts(said)) == (1, {"passed": 5, "error": 5})
    code, said = tried(tmp_path, "--processes", "2", other="import nothing_of_that_name\n")
    assert (code, counts(said)) == (2, {"error": 1})
