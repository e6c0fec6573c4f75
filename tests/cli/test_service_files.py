"""Files and folders with services on the command line: which count, and how their faults are told."""

from pathlib import Path

import pytest

from interlock.config import resolve
from interlock.config.resolve import HANDED_OVER
from interlock.error import BadValue
from tests.config.writing import without_rule
from tests.helpers.server import interlock


def test_arguments_win_over_the_environment_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("interlock.yaml").write_text("files: [one.yaml, two]\n")
    found = resolve({}, None, {})
    assert (found.settings.files, found.sources["files"]) == (["one.yaml", "two"], "interlock.yaml:1")
    found = resolve({"files": None}, None, {"INTERLOCK_FILES": "three.yaml"})
    assert (found.settings.files, found.sources["files"]) == (["three.yaml"], "INTERLOCK_FILES")
    found = resolve({"files": ["four, five", "six"]}, None, {"INTERLOCK_FILES": "three.yaml"})
    assert (found.settings.files, found.sources["files"]) == (["four, five", "six"], "argument PATH")
    with pytest.raises(BadValue, match=r"^PATH\[1\]: '' is not the path of a file or a folder$"):
        resolve({"files": ["a", ""]}, None, {})


def test_what_a_service_is_told_is_no_setting() -> None:
    assert resolve({}, None, dict.fromkeys(HANDED_OVER, "1")) == resolve({}, None, {})


def test_the_settings_show_them(folder: Path) -> None:
    said = interlock(folder, "config", INTERLOCK_FILES="all, more.yaml").stdout
    assert "files\tall, more.yaml\tINTERLOCK_FILES\n" in said


def test_every_fault_is_a_line_of_its_own(folder: Path) -> None:
    (folder / "all").mkdir()
    (folder / "all" / "a.yaml").write_text("kind: Service\nid: web\nrestart: sometimes\n")
    (folder / "b.yaml").write_text('kind: Service\nid: "\\e[31mred"\nrun: {process: [a]}\n')
    ended = interlock(folder, "up", "all", "b.yaml", "gone.yaml")
    assert [without_rule(line) for line in ended.stderr.splitlines()] == [
        "error: 4 faults in 3 files [bad_config]",
        "  all/a.yaml:1: run: missing",
        "  all/a.yaml:3: restart: 'sometimes' is not",
        "  b.yaml:2: id: '\\x1b[31mred' is not",
        "  gone.yaml: cannot be read (No such file or directory)",
    ]
    assert (ended.stdout, ended.returncode) == ("", 2)
    assert sorted(path.name for path in folder.iterdir()) == ["all", "b.yaml"]


def test_a_single_fault_is_one_line(folder: Path) -> None:
    (folder / "interlock.yaml").write_text("files: [services.yaml]\n")
    (folder / "services.yaml").write_text("kind: Servce\n")
    ended = interlock(folder, "up")
    assert ended.stderr.startswith("error: services.yaml:1: kind: 'Servce' is unknown")
    assert ended.stderr.endswith("did you mean 'Service'? [bad_config]\n")
    assert (ended.stdout, ended.returncode) == ("", 2)


def test_a_service_of_the_app_and_one_of_a_file_have_different_names(folder: Path) -> None:
    (folder / "jobs.py").write_text("import interlock as il\napp = il.App()\napp.service('web', process=['web'])\n")
    (folder / "a.yaml").write_text("kind: Group\nid: web\n")
    ended = interlock(folder, "up", "-A", "jobs:app", "a.yaml")
    assert ended.stderr == "error: a.yaml:2: id: 'web' is declared twice, first at jobs.py:3 [bad_config]\n"
    assert ended.returncode == 2


def test_a_service_that_is_declared_wrongly_in_python(folder: Path) -> None:
    (folder / "jobs.py").write_text(
        "import interlock as il\napp = il.App()\napp.service('web', process=['web'], restart='maybe')\n"
    )
    ended = interlock(folder, "up", "-A", "jobs:app")
    why = "restart: 'maybe' is not one of always, on_failure, never (bad_value)"
    assert ended.stderr.endswith(f"error: app: cannot load 'jobs:app': {why} [cannot_import]\n")
    assert '/jobs.py", line 3' in ended.stderr
    assert ended.returncode == 2
