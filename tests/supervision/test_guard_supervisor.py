"""The end of a supervisor: its guard leaves nothing of the children."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Self

import pytest

from interlock.supervision.guard_client import Ended, NotSpawned
from tests.helpers.places import folder, until
from tests.helpers.processes import alive, wait_until
from tests.supervision.conftest import each_loop
from tests.supervision.programs import (
    ROOT,
    SLEEP,
    all_gone,
    descent,
    gone,
    guarded,
    kin_of,
    spawn,
)

pytestmark = pytest.mark.behaviour("SUP-10")

__all__ = ["folder"]


@each_loop
async def test_closing_ends_everything(folder: Path) -> None:
    async with guarded() as guard:
        process = await spawn(guard, *descent(folder), outlives=True)
        pids = await kin_of(folder)
    assert gone(*pids)
    assert process.exit.result() == Ended(signal=signal.SIGKILL)
    await guard.close()
    with pytest.raises(NotSpawned) as caught:
        await spawn(guard, "true")
    assert caught.value.stage == "guard"


@each_loop
async def test_a_guard_that_is_closed_says_its_last_words(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(str(folder / "engine"))
        engine.listen()
        engine.setblocking(False)
        async with guarded() as guard:
            guard.remember("one", str(folder / "engine"), b"DELETE /one HTTP/1.1\r\n\r\n")
            guard.remember("other", str(folder / "engine"), b"DELETE /other HTTP/1.1\r\n\r\n")
            guard.disregard("other")
            closing = asyncio.ensure_future(guard.close())
            for answer in (b"HTTP/1.1 404 Not Found\r\n\r\n", b"HTTP/1.1 204 No Content\r\n\r\n"):
                loop = asyncio.get_running_loop()
                connection, _ = await asyncio.wait_for(loop.sock_accept(engine), 20)
                with connection:
                    connection.setblocking(False)
                    assert await loop.sock_recv(connection, 1024) == b"DELETE /one HTTP/1.1\r\n\r\n"
                    connection.send(answer)
            await closing
        with pytest.raises(BlockingIOError):
            engine.accept()
    (folder / "engine").unlink()


class Owner:
    """A process with a guard and children, in a group of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.engine = socket.socket(socket.AF_UNIX)
        self.name = str(folder / "engine")
        self.engine.bind(self.name)
        self.engine.listen()
        self.engine.settimeout(20)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.supervision.programs", str(folder), *options], cwd=ROOT, process_group=0
        )
        wait_until((folder / "told").exists, "the owner has its children")
        told = json.loads((folder / "told").read_text())
        self.guard: int = told["guard"]
        self.pids: list[int] = told["pids"]
        self.survivors: list[int] = told["survivors"]
        self.copy: int = told["copy"]
        assert all(map(alive, [self.guard, *self.pids, *self.survivors]))

    def asked(self) -> bytes:
        """What a container engine would have been asked."""
        connection, _ = self.engine.accept()
        with connection:
            return connection.recv(1024)

    def kill(self) -> None:
        self.process.kill()
        assert self.process.wait() == -signal.SIGKILL

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.close()
        Path(self.name).unlink()
        for pid in self.survivors:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self.copy:
            os.kill(self.copy, signal.SIGKILL)
        self.process.kill()
        self.process.wait()


@pytest.mark.parametrize("whole_group", [False, True], ids=["owner", "group"])
def test_nothing_survives_when_the_supervisor_is_killed(folder: Path, whole_group: bool) -> None:
    with Owner(folder) as owner:
        os.killpg(owner.process.pid, signal.SIGKILL) if whole_group else owner.process.kill()
        assert owner.process.wait() == -signal.SIGKILL
        all_gone(owner.pids)
        assert owner.asked() == b"DELETE /one HTTP/1.1\r\n\r\n"
        all_gone([owner.guard])
        owner.engine.settimeout(0)
        with pytest.raises(BlockingIOError):
            owner.asked()


def test_a_copy_of_the_supervisor_keeps_nothing_alive(folder: Path) -> None:
    with Owner(folder, "forks") as owner:
        owner.kill()
        owner.asked()
        all_gone([*owner.pids, owner.guard])
        assert alive(owner.copy)


@pytest.mark.parametrize("options", [("stops",), ("stops", "forks")])
def test_what_it_was_asked_last_is_remembered_though_it_had_not_listened(folder: Path, options: list[str]) -> None:
    with Owner(folder, *options) as owner:
        owner.kill()
        os.kill(owner.guard, signal.SIGCONT)
        assert owner.asked() == b"DELETE /one HTTP/1.1\r\n\r\n"
        all_gone([*owner.pids, owner.guard])


def test_it_closes_in_order_though_it_had_not_listened_while_its_supervisor_lived(folder: Path) -> None:
    with Owner(folder, "outliving", "closes") as owner:
        owner.kill()
        os.kill(owner.guard, signal.SIGCONT)
        all_gone([*owner.pids, *owner.survivors])
        assert owner.asked() == b"DELETE /one HTTP/1.1\r\n\r\n"
        all_gone([owner.guard])


def test_a_child_that_outlives_its_supervisor_does_with_all_it_has_started(folder: Path) -> None:
    with Owner(folder, "outliving") as owner:
        owner.kill()
        owner.asked()
        all_gone([*owner.pids, owner.guard])
        assert all(map(alive, owner.survivors))


@each_loop
async def test_the_guard_and_other_children_hold_no_end_of_a_pipe() -> None:
    async with guarded() as guard:
        for inheritable in (True, False):
            reader, writer = os.pipe()
            os.set_inheritable(writer, inheritable)
            process = await spawn(guard, "true", descriptors={1: writer})
            await spawn(guard, *SLEEP)
            os.close(writer)
            await process.exit
            assert os.read(reader, 1) == b""
            os.close(reader)


@each_loop
async def test_a_supervisor_below_another_one_leaves_nothing_either(folder: Path) -> None:
    async with guarded() as guard:
        command = (sys.executable, "-m", "tests.supervision.programs", str(folder), "outliving")
        owner = await spawn(guard, *command, cwd=str(ROOT))
        await until((folder / "told").exists, "the owner has its children")
        told = json.loads((folder / "told").read_text())
        os.kill(owner.pid, signal.SIGKILL)
        await owner.exit
        assert gone(told["guard"], *told["pids"], *told["survivors"])


def test_children_die_with_the_guard_though_nobody_is_there_to_kill_them(folder: Path) -> None:
    with Owner(folder) as owner:
        leader, *owner.survivors = owner.pids
        owner.process.send_signal(signal.SIGSTOP)
        os.kill(owner.guard, signal.SIGKILL)
        all_gone([leader])
