"""`import interlock` costs next to nothing, and still has everything."""

import subprocess
import sys

import pytest

import interlock

HEAVY = ("asyncio", "uvloop", "sqlite3", "rich", "aiohttp", "typer", "logging")


@pytest.mark.parametrize("program", ["import interlock", "import interlock; interlock.Client('http://localhost:1')"])
def test_what_is_heavy_is_not_imported(program: str) -> None:
    check = f"{program}\nimport sys\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_the_package_itself_imports_nothing() -> None:
    check = "import sys; before = set(sys.modules); import interlock; print(sorted(sys.modules.keys() - before))"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "['interlock']"


def test_every_name_is_there_and_listed() -> None:
    for name in interlock.__all__:
        assert getattr(interlock, name) is not None
        assert name in dir(interlock)
    with pytest.raises(AttributeError, match="no attribute 'Clinet'"):
        interlock.Clinet  # noqa: B018 - reading it is what is tested
    with pytest.raises(ImportError):
        exec("from interlock import Clinet")


def test_an_import_of_everything_gives_everything() -> None:
    found: dict[str, object] = {}
    exec("from interlock import *", found)
    assert set(interlock.__all__) <= found.keys()
