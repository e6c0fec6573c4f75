"""Services that are functions, each in a real process: how it is found, called, told to end, and what its end says."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from interlock.config.sources import load
from interlock.supervision import Process
from interlock.worker.service import ServiceOptions
from tests.helpers.server import environment

SERVICES = """
import asyncio
import sys
import time

import interlock as il

app = il.App()


async def lives():
    print("async is up")
    try:
        await asyncio.sleep(600)
    finally:
        await asyncio.sleep(0)
        print("async cleaned up")


def rest():
    # In pieces: a signal that comes right before one begins is handled when it is over.
    for _ in range(30_000):
        time.sleep(0.02)


def plain():
    try:
        print("plain is up")
        rest()
    except Exception:
        print("never")
    finally:
        print("plain cleaned up")


async def stubborn():
    print("stubborn is up")
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            print("stubborn stays")




def stubborn_now():
    try:
        print("stubborn is up")
        rest()
    except SystemExit:
        print("stubborn stays")
        rest()


async def returns(anything=5, *more, **named):
    print("anything", anything, more, named)
    return 7


def shows(context):
    print(context.name, context.resume_id, context.previous_exit, context.previous_signal)


async def raises():
    inner()


def raises_plain():
    inner()


def inner():
    raise LookupError("nothing to be found")


async def cancels_itself():
    raise asyncio.CancelledError


async def exits():
    raise SystemExit(42)


def exits_plain():
    sys.exit(43)


def writes():
    sys.stdout.write("half a line, ")
    print("and the rest \\udc80")
    input()


class Kept:
    @staticmethod
    async def below():
        print("below")


def two(a, b): ...


number = 5
app.service("shown")(shows)
app.service("lives")(lives)
app.service("web", process=["web"])
"""


class Life:
    """A process that runs a function."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def ended(self) -> tuple[int, str, str]:
        """Exit code and what it has said since."""
        said, errors = self.process.communicate(timeout=60)
        return self.process.returncode, said, errors


@contextmanager
def life(folder: Path, options: ServiceOptions, **extra: str) -> Iterator[Life]:
    (folder / "services.py").write_text(SERVICES)
    with subprocess.Popen(
        options.command(),
        cwd=folder,
        env=environment(**extra),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Life(process)
        finally:
            process.kill()


def function(name: str) -> ServiceOptions:
    return ServiceOptions(name="one", function=f"services:{name}")


@pytest.mark.behaviour("SUP-10")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(("name", "kind"), [("lives", "async"), ("plain", "plain")])
def test_a_function_is_told_to_end_and_may_clean_up(folder: Path, name: str, kind: str, number: signal.Signals) -> None:
    with life(folder, function(name)) as one:
        assert one.line() == f"{kind} is up\n"
        one.process.send_signal(number)
        assert one.ended() == (0, f"{kind} cleaned up\n", "")


@pytest.mark.parametrize("name", ["stubborn", "stubborn_now"])
def test_a_second_signal_ends_it_at_once(folder: Path, name: str) -> None:
    with life(folder, function(name)) as one:
        assert one.line() == "stubborn is up\n"
        one.process.send_signal(signal.SIGTERM)
        assert one.line() == "stubborn stays\n"
        one.process.send_signal(signal.SIGTERM)
        assert one.ended() == (-signal.SIGTERM, "", "")


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [("returns", 0, "anything 5 () {}\n"), ("Kept.below", 0, "below\n"), ("exits", 42, ""), ("exits_plain", 43, "")],
)
def test_how_it_ends_by_itself(folder: Path, name: str, code: int, said: str) -> None:
    with life(folder, function(name)) as one:
        assert one.ended() == (code, said, "")


@pytest.mark.parametrize("name", ["raises", "raises_plain"])
def test_what_it_raises_is_told_once_and_without_frames_of_ours(folder: Path, name: str) -> None:
    with life(folder, function(name)) as one:
        code, said, errors = one.ended()
    assert (code, said) == (1, "")
    assert errors.count("Traceback") == 1
    assert re.findall(r'File ".*?(\w+\.py)", line \d+, in (\w+)', errors) == [
        ("services.py", name),
        ("services.py", "inner"),
    ]
    assert errors.endswith("LookupError: nothing to be found\n")


def test_one_that_cancels_itself_has_failed(folder: Path) -> None:
    with life(folder, function("cancels_itself")) as one:
        code, said, errors = one.ended()
    assert (code, said) == (1, "")
    assert errors.rstrip().endswith("CancelledError")


@pytest.mark.behaviour("SUP-7")
@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({}, "one  -1 None"),
        ({"INTERLOCK_RESUME_ID": "r-1", "INTERLOCK_PREV_EXIT": "-1"}, "one r-1 -1 None"),
        ({"INTERLOCK_RESUME_ID": "r-1", "INTERLOCK_PREV_EXIT": "3"}, "one r-1 3 None"),
        ({"INTERLOCK_PREV_EXIT": "-1", "INTERLOCK_PREV_SIGNAL": "9"}, "one  -1 9"),
        ({"INTERLOCK_PREV_EXIT": "none", "INTERLOCK_PREV_SIGNAL": ""}, "one  -1 None"),
    ],
)
def test_it_is_told_of_its_last_life(folder: Path, given: dict[str, str], shown: str) -> None:
    with life(folder, function("shows"), **given) as one:
        assert one.ended() == (0, f"{shown}\n", "")


def test_a_function_of_an_app_is_found_by_its_service(folder: Path) -> None:
    with life(folder, ServiceOptions(name="shown", app="services:app")) as one:
        assert one.ended() == (0, "shown  -1 None\n", "")


def test_what_it_prints_is_there_while_it_lives(folder: Path) -> None:
    with life(folder, function("writes")) as one:
        assert one.line() == "half a line, and the rest \\udc80\n"
        assert one.process.poll() is None


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (function("nothing"), "cannot_import", "'nothing'"),
        (ServiceOptions(name="one", function="nowhere:a"), "cannot_import", "No module named 'nowhere'"),
        (ServiceOptions(name="one", function="gone.py:a"), "cannot_import", "gone.py"),
        (ServiceOptions(name="one", app="nowhere:app"), "cannot_import", "No module named 'nowhere'"),
        (ServiceOptions(name="other", app="services:app"), "cannot_import", "'other'"),
        (ServiceOptions(name="web", app="services:app"), "cannot_import", "'web'"),
        (function("number"), "bad_handler", "5"),
        (function("two"), "bad_handler", "services.two needs a, b"),
    ],
)
def test_what_cannot_be_run_is_one_line(folder: Path, options: ServiceOptions, code: str, says: str) -> None:
    with life(folder, options) as one:
        exit_code, out, error = one.ended()
        assert (exit_code, out, error.count("\n")) == (2, "", 1)
        assert error.endswith(f"[{code}]\n")
        assert says in error


@pytest.mark.behaviour("SUP-10")
def test_from_a_file_to_a_process_in_another_folder(folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    (folder / "code").mkdir()
    (folder / "code" / "beside.py").write_text("WORD = 'beside'\n")
    (folder / "code" / "tick.py").write_text(
        "import os\nfrom beside import WORD\ndef main(): print(WORD, os.environ['PORT'], os.getcwd())\n"
    )
    (folder / "all.yaml").write_text(
        "kind: Service\nid: tick\nrun: {function: code/tick.py:main}\nenv: {PORT: 9000}\ncwd: elsewhere\n"
    )
    (child,) = load([str(folder / "all.yaml")]).children
    assert isinstance(child, Process)
    assert not callable(child.command)
    done = subprocess.run(
        child.command,
        cwd=child.cwd,
        env=environment(**{name: value for name, value in child.env.items() if value is not None}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"beside 9000 {folder}/elsewhere\n", "")


def test_a_module_is_found_where_the_supervisor_finds_it(folder: Path) -> None:
    (folder / "lib").mkdir()
    (folder / "lib" / "found.py").write_text("def main(): print('found')\n")
    options = ServiceOptions(name="one", function="found:main", path=[str(folder / "lib")])
    with life(folder, options) as one:
        assert one.ended() == (0, "found\n", "")


def test_its_options_are_what_its_command_says() -> None:
    program, *rest, options = ServiceOptions(name="one", app="a:b", path=["/x"]).command()
    assert (program, rest) == (sys.executable, ["-m", "interlock.worker.service_process"])
    assert msgspec.json.decode(options) == {"name": "one", "app": "a:b", "path": ["/x"]}
    assert os.path.isabs(program)
