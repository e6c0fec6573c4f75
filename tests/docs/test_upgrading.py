"""The commands of the page on upgrading replace a server under a run, and go back."""

from pathlib import Path

import pytest

from tests.docs.blocks import run_shell
from tests.docs.test_getting_started import GETTING_STARTED, put_files, shell_of


@pytest.mark.behaviour("REC-1")
def test_a_run_outlasts_the_upgrade(folder: Path) -> None:
    put_files(GETTING_STARTED, folder)
    said = run_shell(shell_of("docs/upgrading.md"), folder)
    assert "state\tsucceeded" in said, said
    assert "attempts\t1\n" in said, said
    assert '"30 pages"' in said, said
    assert (folder / "interlock.db.replaced-1").exists()
