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
SETTINGS = {"typeCheckingMode": "strict", "reportUnnecessaryTypeIgnoreComment": True}
PYRIGHT = ("basedpyright", "--outputjson", "--pythonpath", sys.executable)


def copied(source: str, project: Path) -> Path:
    """Copy a folder to a place outside this project, which sees the package as it is installed."""
    shutil.copytree(ROOT / source, project / source, ignore=shutil.ignore_patterns("__pycache__"))
    (project / "pyrightconfig.json").write_text(json.dumps(SETTINGS | {"include": [source]}))
    return project


def check(project: Path, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=project, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("source", [SAMPLE, NEWCOMER, CHAT])
def test_mypy(source: str, tmp_path: Path) -> None:
    project = copied(source, tmp_path)
    assert check(project, "mypy", "--strict", "--explicit-package-bases", source).startswith("Success")


@pytest.mark.parametrize("source", [SAMPLE, NEWCOMER, CHAT])
def test_pyright(source: str, tmp_path: Path) -> None:
    project = copied(source, tmp_path)
    found = json.loads(check(project, *PYRIGHT))
    assert found["generalDiagnostics"] == []
    assert found["summary"]["filesAnalyzed"] == len(list((ROOT / source).glob("*.py")))


def test_pyright_reports_each_mistake_of_the_sample(tmp_path: Path) -> None:
    project = copied(SAMPLE, tmp_path)
    program = project / SAMPLE / "use.py"
    text = program.read_text()
    mistakes = [number for number, line in enumerate(text.splitlines()) if IGNORED in line]
    program.write_text(text.replace(IGNORED, "# mistake"))
    found = json.loads(check(project, *PYRIGHT))
    assert sorted({one["range"]["start"]["line"] for one in found["generalDiagnostics"]}) == mistakes
