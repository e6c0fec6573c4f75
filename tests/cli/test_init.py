"""`interlock init` writes a project that runs, and leaves files that are there alone."""

import json
import subprocess
import sys
from pathlib import Path

from tests.helpers.server import Server, interlock

NAMES = {"interlock.yaml", "jobs.py", "schedule.yaml", "policy.yaml", "test_jobs.py"}


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_its_project_runs_and_its_tests_pass(folder: Path) -> None:
    ended = interlock(folder, "init", "shop", "--json")
    made = json.loads(ended.stdout)
    assert {Path(path).name for path in made["files"]} == NAMES
    assert made["next"][:2] == ["cd shop", "interlock check"]
    project = folder / "shop"
    assert names_in(project) == NAMES
    assert interlock(project, "check", "--strict").returncode == 0
    assert "2 of 2 cases passed" in interlock(project, "policy", "test").stderr
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(project)]
    tested = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=120, check=False)
    assert "3 passed" in tested.stdout, tested.stdout + tested.stderr
    with Server(project, "--http", "local", target=None):
        assert interlock(project, "submit", "report", "--wait").stdout == '"3 pages"\n'


def test_it_replaces_nothing(folder: Path) -> None:
    (folder / "jobs.py").write_text("mine")
    ended = interlock(folder, "init")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("error: FOLDER: . already has jobs.py; choose another folder: interlock init FOLDER")
    assert names_in(folder) == {"jobs.py"}
    (folder / "file").touch()
    ended = interlock(folder, "init", "file")
    assert ended.returncode == 2
    assert "file" in ended.stderr
