"""The sample project passes mypy --strict and pyright as a project that has installed Interlock.

Its mistakes carry `type: ignore` comments, and both checkers report those that are not needed: so each is refused.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

IGNORED = "# type: ignore"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy outside this project, which sees the package as it is installed."""
    shutil.copytree(Path(__file__).parent / "sample", tmp_path / "tests" / "typed" / "sample")
    return tmp_path


def check(project: Path, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=project, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.stderr == ""
    return done.stdout


def test_mypy(project: Path) -> None:
    assert check(project, "mypy", "--strict", "--explicit-package-bases", "tests").startswith("Success")


def test_pyright(project: Path) -> None:
    settings = {"typeCheckingMode": "strict", "reportUnnecessaryTypeIgnoreComment": True, "include": ["tests"]}
    (project / "pyrightconfig.json").write_text(json.dumps(settings))
    command = ("basedpyright", "--outputjson", "--pythonpath", sys.executable)
    found = json.loads(check(project, *command))
    assert found["generalDiagnostics"] == []
    assert found["summary"]["filesAnalyzed"] == 3
    program = project / "tests" / "typed" / "sample" / "use.py"
    text = program.read_text()
    mistakes = [number for number, line in enumerate(text.splitlines()) if IGNORED in line]
    program.write_text(text.replace(IGNORED, "# mistake"))
    found = json.loads(check(project, *command))
    assert sorted({one["range"]["start"]["line"] for one in found["generalDiagnostics"]}) == mistakes
