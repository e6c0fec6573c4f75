"""The tour and the first schedule of the README work as they are pasted into a shell."""

import re
import shutil
import sys
import tarfile
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, of_language, run_shell


def like_a_clone(folder: Path) -> None:
    """What the tour needs of a clone, set up already: nothing is to be installed."""
    for name in ("requirements.lock", "requirements-run.txt", "pyproject.toml", "Makefile"):
        shutil.copy(ROOT / name, folder)
    (folder / ".venv").mkdir()
    for part in Path(sys.prefix).iterdir():
        if part.name != "run":
            (folder / ".venv" / part.name).symlink_to(part)
    (folder / ".venv" / "run").touch()


@pytest.mark.behaviour("RUN-17", "RUN-20", "LIV-4", "OBS-4")
def test_the_tour(folder: Path) -> None:
    like_a_clone(folder)
    (tour,) = of_language("README.md", "sh")
    said = run_shell(tour.text, folder)
    assert said.count('{"ready":true,') == 2, said
    assert "error:" not in said, said
    submitted = said.index('"3 pages"')
    over_http = said.index('{"id":"', submitted)
    from_python = said.index("5 pages", over_http)
    listed = re.findall(r"^(\w+)\treport\tsucceeded\t1\t", said[from_python:], re.M)
    assert len(listed) == 3, said
    _, _, killed = said[from_python:].partition("Killed")
    assert killed, said
    # What was logged while there was no scheduler is there too. A line on its way at that very instant may not be.
    logged = [int(page) for page in re.findall(r"^2\S+\t1\tinfo\tpage (\d+) written$", killed, re.M)]
    assert logged == sorted(logged)
    assert len(logged) >= 19, said
    assert logged[0] == 1
    assert logged[-1] == 20
    assert "attempts\t1\n" in killed, said
    assert 'result\t"20 pages"\n' in killed, said
    assert [found[0] for found in re.finditer(r"(?<=^state\t)\w+(?=\t)", killed, re.M)] == [
        "pending",
        "scheduled",
        "dispatched",
        "running",
        "terminating",
        "succeeded",
    ]
    assert "0 submitted, 1 succeeded, 0 kept for the next start" in killed, said


@pytest.mark.behaviour("TIM-12", "TIM-11")
def test_the_first_schedule(folder: Path) -> None:
    """Every command that the README shows, on a machine that has nothing but Python."""
    schedule = of_language("README.md", "yaml")[0]
    assert schedule.file is not None
    (folder / schedule.file).write_text(schedule.text)
    (shown,) = [block.text for block in of_language("README.md", "console") if "interlock timetable" in block.text]
    commands = [line.removeprefix("$ ").partition("  #")[0].rstrip() for line in shown.splitlines()]
    (up,) = [command for command in commands if command.startswith("interlock up ")]
    ready = "curl -s -w '\\n' --retry 9 --retry-all-errors http://127.0.0.1:8420/readyz"
    script = "\n".join(f"{one} --no-table &\n{ready}" if one == up else one for one in commands)
    said = run_shell(f"set -e\n{script}\nkill $! && wait $!\n", folder)
    assert re.search(r"^nightly-backup\tcron 0 2 \* \* \* Europe/Paris\t\S+Z\tbackup.yaml:3$", said, re.M), said
    assert len(re.findall(r"^\S+Z\tnightly-backup$", said, re.M)) == 1, said
    assert re.search(r"^\w+\tsucceeded\ttrigger\t", said, re.M), said
    with tarfile.open(folder / "backup.tar") as made:
        assert made.getnames() == [schedule.file]
    assert (folder / "week.svg").exists()
