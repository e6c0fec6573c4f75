"""Each test in a folder of its own, so that messages name files by short names."""

from pathlib import Path

import pytest

import interlock as il


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def app() -> il.App:
    return il.App()
