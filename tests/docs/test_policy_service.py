"""The page on the policy service: its policy can be served, its program asks it, and its numbers are right."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.policy_service.client import CIRCUIT, LOOK
from interlock.wire.effect import CALL
from tests.docs.blocks import ROOT, of_language
from tests.policy_service.test_server import serving

PAGE = "docs/policy-service.md"


def test_the_program_asks_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (policy, _), (shell,), (program,) = (of_language(PAGE, language) for language in ("yaml", "sh", "python"))
    monkeypatch.chdir(tmp_path)
    Path(str(policy.file)).write_text(policy.text)
    with serving(*shell.text.split()[3:], "--listen", "127.0.0.1:0") as command:
        address = command.line().split(" on ")[1].split()[0]
        text = program.text.replace("127.0.0.1:50051", address)
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.returncode) == ("RULING_REQUIRE_APPROVAL moves money\n", 0), done.stderr


def test_the_numbers_are_right() -> None:
    text = re.sub(r"\s+", " ", (ROOT / PAGE).read_text())
    assert (CIRCUIT.failures, CIRCUIT.successes) == (3, 2)
    for said in (
        f"A call takes {CALL:g} s at most",
        f"Three failures in a row open the **circuit**: for {CIRCUIT.pause:g} s",
        f"Then up to {CIRCUIT.probes} calls probe the service. Two successes close",
        f"every {LOOK:g} s in between",
    ):
        assert said in text
