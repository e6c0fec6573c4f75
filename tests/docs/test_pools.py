"""What the page on pools shows holds, and the example is fine."""

import shlex
from pathlib import Path

import pytest

from interlock.config.sources import load
from tests.docs.blocks import ROOT, of_language
from tests.helpers.server import Command, Server, interlock

PAGE = "docs/pools.md"


@pytest.mark.behaviour("ROU-1", "ROU-2", "ROU-4")
def test_the_page_on_pools(folder: Path) -> None:
    files = of_language(PAGE, "yaml")
    for block in files:
        # The machine of the tests is busy.
        (folder / str(block.file)).write_text(block.text.replace("max_load: 90", "max_load: null"))
    worker, submit = (shlex.split(block.text)[1:] for block in of_language(PAGE, "sh"))
    assert load([str(folder / str(block.file)) for block in files], strict=True).warnings == []
    # Its own worker is in the pool `default`, and has neither the capability nor the labels.
    with Server(folder, *(str(block.file) for block in files), "--http", "local", target=None):
        more = Command(folder, "interlock.cli", *worker, name="worker")
        more.begin()
        ended = interlock(folder, *submit)
        assert ended.returncode == 0, ended
        assert more.stop() == 0, more.said


def test_the_example() -> None:
    loaded = load([str(ROOT / "examples" / "pools.yaml")], strict=True)
    assert list(loaded.pools) == ["gpu", "default"]
    assert [one.job.id for one in loaded.jobs] == ["train.net", "report.day"]
