"""The sample project, the application of a newcomer and the toy chat pass mypy --strict and pyright as projects that
have installed Interlock.

The mistakes of the sample carry `type: ignore` comments, and both checkers report those that are not needed: so each is
refused.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT

IGNORED = "# type: ignore"


SAMPLE, NEWCOMER, CHAT = "tests/typed/sample", "examples/newcomer", "examples/chat"
FLOWS = "examples/workflows"
SOURCES = SAMPLE, NEWCOMER, CHAT, FLOWS
SETTINGS = {"typeCheckingMode": "strict", "reportUnnecessaryTypeIgnoreComment": True}
PYRIGHT = ("basedpyright", "--outputjson", "--pythonpath", sys.executable)


def copied(project: Path, *sources: str) -> Path:
    """Copy folders to a place outside this project, which sees the package as it is installed."""
    for source in sources:
        shutil.copytree(ROOT / source, project / source, ignore=shutil.ignore_patterns("__pycache__"))
    (project / "pyrightconfig.json").write_text(json.dumps(SETTINGS | {"include": sources}))
    return project


def check(project: Path, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=project, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.stderr == ""
    return done.stdout


def test_mypy(tmp_path: Path) -> None:
    project = copied(tmp_path, *SOURCES)
    assert check(project, "mypy", "--strict", "--explicit-package-bases", *SOURCES).startswith("Success")


def test_pyright(tmp_path: Path) -> None:
    found = json.loads(check(copied(tmp_path, *SOURCES), *PYRIGHT))
    assert found["generalDiagnostics"] == []
    assert found["summary"]["filesAnalyzed"] == sum(len(list((ROOT / one).glob("*.py"))) for one in SOURCES)


@pytest.mark.parametrize("name", ["use.py", "flows.py"])
def test_pyright_reports_each_mistake_of_the_sample(tmp_path: Path, name: str) -> None:
    project = copied(tmp_path, SAMPLE)
    program = project / SAMPLE / name
    text = program.read_text()
    mistakes = [number for number, line in enumerate(text.splitlines()) if IGNORED in line]
    program.write_text(text.replace(IGNORED, "# mistake"))
    found = json.loads(check(project, *PYRIGHT))
    assert sorted({one["range"]["start"]["line"] for one in found["generalDiagnostics"]}) == mistakes
