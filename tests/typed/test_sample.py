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


SAMPLE = "tests/typed/sample"
SOURCES = SAMPLE, "examples/newcomer", "examples/chat", "examples/workflows"
SETTINGS = {"typeCheckingMode": "strict", "reportUnnecessaryTypeIgnoreComment": True}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the folders outside this project, which sees the package as it is installed."""
    for source in SOURCES:
        shutil.copytree(ROOT / source, tmp_path / source, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def check(project: Path, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=project, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.stderr == ""
    return done.stdout


def test_mypy(project: Path) -> None:
    assert check(project, "mypy", "--strict", "--explicit-package-bases", *SOURCES).startswith("Success")


def test_pyright(project: Path) -> None:
    """Once more without the comments, the programs of the sample have each of their mistakes, and no other."""
    expected = []
    for name in ("use.py", "flows.py"):
        text = (project / SAMPLE / name).read_text()
        (project / name).write_text(text.replace(IGNORED, "# mistake"))
        expected += [(name, number) for number, line in enumerate(text.splitlines()) if IGNORED in line]
    (project / "pyrightconfig.json").write_text(json.dumps(SETTINGS))
    found = json.loads(check(project, "basedpyright", "--outputjson", "--pythonpath", sys.executable))
    places = {(one["file"], one["range"]["start"]["line"]) for one in found["generalDiagnostics"]}
    assert sorted(places) == sorted((str(project / name), number) for name, number in expected)
    assert found["summary"]["filesAnalyzed"] == len(list(project.rglob("*.py")))
