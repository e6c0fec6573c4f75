"""The soak: what it prints, how a failure is replayed, and that a seed does the same everywhere."""

import os
import subprocess
import sys

import pytest

from soak.seeds import main
from soak.simulation.simulate import simulate


def trace_of(seed: int, hash_seed: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "soak.seeds", "--seed", str(seed)],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout.strip().rsplit(" ", 1)[1]


@pytest.mark.parametrize("seed", [3, 14])
def test_a_seed_does_the_same_in_every_process(seed: int) -> None:
    here = simulate(seed).trace
    assert simulate(seed).trace == here
    assert trace_of(seed, "1") == trace_of(seed, "2") == here


def test_two_seeds_do_not_do_the_same() -> None:
    assert simulate(1).trace != simulate(2).trace


def test_a_failing_seed_is_shown_with_the_command_that_replays_it(capsys: pytest.CaptureFixture[str]) -> None:
    sabotage = ["--sabotage", "worker_begins_twice"]
    assert main(["--seeds", "2", "--first", "5", "--processes", "1", *sabotage]) == 1
    shown = capsys.readouterr().out
    assert "seed 5 violates: " in shown
    assert "executes twice under fence" in shown
    command = "python -m soak.seeds --seed 5 --sabotage worker_begins_twice"
    assert f"replay it with: {command}\n" in shown
    assert main(command.split()[3:]) == 1
    again = capsys.readouterr().out
    assert again.splitlines()[0] in shown


def test_a_soak_that_holds_says_what_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "3", "--processes", "1"]) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[-1].startswith("3 seeds: "), "a slow machine also shows its progress"
    assert shown.endswith("0 failed\n")


def test_nonsense_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["--seeds", "0"])
    assert refused.value.code == 2
    assert "must be 1 or more" in capsys.readouterr().err
