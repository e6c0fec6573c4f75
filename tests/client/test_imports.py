"""`import interlock` costs next to nothing, and still has everything."""

import subprocess
import sys

import pytest

import interlock
from interlock import error
from interlock.interface.run_view import EVENT_NAMES

HEAVY = ("asyncio", "uvloop", "sqlite3", "rich", "aiohttp", "typer", "logging")


@pytest.mark.parametrize("program", ["import interlock", "import interlock; interlock.Client('http://localhost:1')"])
def test_what_is_heavy_is_not_imported(program: str) -> None:
    check = f"{program}\nimport sys\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("program", "unused"),
    [
        ("import interlock.cli.group", "interlock.model"),
        ("import interlock; interlock.App()", "interlock.worker.workflow"),
    ],
)
def test_what_a_program_does_not_use_is_not_imported(program: str, unused: str) -> None:
    check = f"{program}\nimport sys\nprint([name for name in sys.modules if name.startswith({unused!r})])"
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


def test_every_error_and_every_event_is_exported() -> None:
    def below(kind: type[error.InterlockError]) -> set[type[error.InterlockError]]:
        return {kind}.union(*(below(one) for one in kind.__subclasses__()))

    kinds = [kind for kind in below(error.InterlockError) if kind.__module__.startswith("interlock.error.")]
    assert {kind.__name__ for kind in kinds if "code" in vars(kind)} <= set(interlock.__all__)
    assert {kind.__name__ for kind in EVENT_NAMES} < set(interlock.__all__)
