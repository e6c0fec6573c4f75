"""The rules of second tries, in folders of their own."""

import subprocess
import sys
from pathlib import Path

from tests.helpers.server import ROOT, environment

SLOW = '@pytest.mark.machine_speed("counts frames in a second")\n'
OPTIONS = "[pytest]\nmarkers = machine_speed(reason): depends on the speed of the machine\n"


def tried(folder: Path, *options: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.second_try", "-c", "pytest.ini", *options]
    env = environment(PYTHONPATH=str(ROOT), PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    ended = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120)
    return ended.returncode, ended.stdout + ended.stderr


def write(folder: Path, place: str, *tests: str) -> None:
    (folder / "pytest.ini").write_text(OPTIONS)
    (folder / place).mkdir(parents=True, exist_ok=True)
    (folder / place / "test_some.py").write_text("\n".join(["import os\nimport pytest\n", *tests]))


def a_test(name: str, marker: str = "") -> str:
    """A test that fails unless a file is there."""
    return f"{marker}def test_{name}() -> None:\n    assert os.path.exists('fast')\n"


def test_only_marked_tests_have_a_second_try(tmp_path: Path) -> None:
    write(tmp_path, "cli", a_test("plain"), a_test("slow", SLOW))
    assert tried(tmp_path)[0] == 1
    (tmp_path / "fast").touch()
    code, said = tried(tmp_path, "--last-failed", "--second-try")
    assert code != 0
    assert "test_some.py::test_plain: failed, and has no second try" in said
    assert "test_slow: failed" not in said
    (tmp_path / "cli/test_some.py").write_text(f"import os\nimport pytest\n\n{a_test('slow', SLOW)}")
    (tmp_path / "fast").unlink()
    assert tried(tmp_path, "--cache-clear")[0] == 1
    assert tried(tmp_path, "--last-failed", "--second-try")[0] == 1, "it fails again"
    (tmp_path / "fast").touch()
    assert tried(tmp_path, "--last-failed", "--second-try")[0] == 0


def test_no_invariant_has_a_second_try_and_every_other_marker_a_reason(tmp_path: Path) -> None:
    folders = ("simulation", "chaos", "crash", "contract", "core", "core/deeper")
    markers = ("", "()", '("")', '(" ")', '("one", "two")', '(why="because")')
    for folder in folders:
        write(tmp_path, folder, a_test("slow", SLOW))
    marked = [a_test(f"{place}", f"@pytest.mark.machine_speed{one}\n") for place, one in enumerate(markers)]
    write(tmp_path, "cli", *marked, a_test("right", SLOW))
    code, said = tried(tmp_path, "--collect-only", "--import-mode=importlib")
    assert code == 4
    expected = {
        f"{one}/test_some.py::test_slow: machine_speed is not for tests in {one.split('/')[0]}" for one in folders
    }
    expected |= {f"cli/test_some.py::test_{place}: machine_speed needs a reason" for place in range(len(markers))}
    assert {line.removeprefix("ERROR: ") for line in said.splitlines() if ": machine_speed" in line} == expected
