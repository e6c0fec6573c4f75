"""The examples of the page on testing pass."""

import subprocess
import sys
from pathlib import Path

from tests.docs.blocks import blocks
from tests.docs.test_getting_started import put_files
from tests.helpers.server import environment

TESTING = "docs/testing.md"


def test_the_examples_pass(folder: Path) -> None:
    names = put_files(TESTING, folder)
    assert len(names) == sum(block.language == "python" for block in blocks(TESTING))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:schemathesis"],
        cwd=folder, env=environment(), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    tests = sum(block.text.count("\ndef test_") for block in blocks(TESTING))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{tests} passed" in done.stdout
