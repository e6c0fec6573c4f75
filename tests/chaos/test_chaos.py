"""One short seed of the chaos program; `make soak` runs ten minutes of it."""

import subprocess
import sys

import pytest

from tests.helpers.server import ROOT, environment


@pytest.mark.behaviour("REC-6", "RUN-7", "RUN-17")
def test_a_short_seed_violates_nothing() -> None:
    command = [sys.executable, "-m", "tests.chaos", "--seconds", "15", "--seed", "1"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as chaos:
        try:
            said, _ = chaos.communicate(timeout=300)
        finally:
            chaos.terminate()
    assert chaos.returncode == 0, said
