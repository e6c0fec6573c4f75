"""The weight of an install, as the benchmark reports it."""

from pathlib import Path

from bench import footprint
from tests.helpers.places import folder

__all__ = ["folder"]


def test_a_plain_install_has_no_packages_of_tests_and_peers() -> None:
    packages = footprint.closure()
    assert {"interlock", "msgspec", "typer", "rich", "uvicorn"} <= packages.keys()
    assert not {"pytest", "huey", "pydantic", "pyte", "ruff", "faker"} & packages.keys()
    assert len(packages) <= 26  # Interlock itself, and 25
    assert 1 < footprint.size(packages) <= 55


def test_import_and_command_are_timed(folder: Path) -> None:
    assert all(one > 0 for one in footprint.import_times(folder))
    assert len(footprint.command_times(folder)) == footprint.REPEATS
