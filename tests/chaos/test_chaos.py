"""Short seeds of the chaos program; `make soak` runs ten minutes of it, and five on a cluster."""

import subprocess
import sys

import pytest

from tests.helpers.postgres import require_programs
from tests.helpers.server import ROOT, environment


@pytest.mark.behaviour("REC-6", "RUN-7", "RUN-17")
def test_a_short_seed_violates_nothing() -> None:
    violates_nothing("--seconds", "15", "--seed", "1")


@pytest.mark.behaviour("REC-6", "RUN-7", "RUN-17", "LEA-2")
def test_a_short_seed_of_three_nodes_violates_nothing() -> None:
    require_programs()
    violates_nothing("--cluster", "--seconds", "6", "--seed", "1")


def violates_nothing(*options: str) -> None:
    command = [sys.executable, "-m", "tests.chaos", *options]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as chaos:
        try:
            said, _ = chaos.communicate(timeout=300)
        finally:
            chaos.terminate()
    assert chaos.returncode == 0, said
