"""Files that are watched: they are read again when they have changed, and only then."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interlock.error import BadConfig, StoreUnavailable
from interlock.wiring.file_watch import FileWatch
from tests.helpers.places import until
from tests.helpers.processes import wait_until
from tests.services.keeper import Keeper

pytestmark = pytest.mark.behaviour("TIM-14")

EVERY = 0.02


class Reader:
    """Reads the files whenever it is told to, as a scheduler would."""

    def __init__(self, *paths: Path) -> None:
        self.paths = paths
        self.read: list[list[str]] = []
        self.errors: list[Exception] = []

    async def reload(self) -> None:
        files = sorted(file for path in self.paths for file in ([path] if path.is_file() else path.glob("*.yaml")))
        self.read.append([file.read_text() for file in files])
        if self.errors:
            raise self.errors.pop(0)

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        watch = FileWatch([str(path) for path in self.paths], self.reload, EVERY)
        task = asyncio.get_running_loop().create_task(watch.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()


async def test_whatever_changes_is_read_once(folder: Path) -> None:
    place, single = folder / "all", folder / "single.yaml"
    place.mkdir()
    single.write_text("1")
    reader = Reader(place, single)
    async with reader.watching():
        single.write_text("2")
        await until(lambda: reader.read == [["2"]], "a change of a file is seen")
        (place / "a.yaml").write_text("a")
        await until(lambda: reader.read[1:] == [["a", "2"]], "a new file is seen")
        (place / "other").write_text("of no interest")
        os.replace(place / "a.yaml", place / "b.yaml")
        await until(lambda: len(reader.read) == 3, "another name is seen")
        os.utime(single, ns=(1, 1))
        await until(lambda: len(reader.read) == 4, "another time is seen")
        single.unlink()
        await until(lambda: len(reader.read) == 5, "that it is gone is seen")
        single.write_text("3")
        await until(lambda: reader.read[5:] == [["a", "3"]], "that it is back is seen")
    assert len(reader.read) == 6


async def test_a_faulty_file_is_read_once_and_what_is_not_its_fault_is_tried_again(folder: Path) -> None:
    file = folder / "a.yaml"
    file.write_text("1")
    reader = Reader(file)
    async with reader.watching():
        reader.errors = [BadConfig("it is wrong")]
        file.write_text("22")
        await until(lambda: reader.read == [["22"]], "it is read")
        reader.errors = [StoreUnavailable("not now"), StoreUnavailable("not now")]
        file.write_text("333")
        await until(lambda: len(reader.read) == 4, "it is read until it could be taken in")
        file.write_text("4444")
        await until(lambda: len(reader.read) == 5, "it goes on")
    assert reader.read == [["22"], ["333"], ["333"], ["333"], ["4444"]]


def test_a_server_that_watches_its_files(folder: Path) -> None:
    keeper = Keeper(folder, "--watch", target=None)
    with keeper:
        path = keeper.declare("a", "kind: Job\nid: tick\n")
        wait_until(lambda: f"{path}:1: run: missing, but required" in keeper.said, "it says what is wrong")
        keeper.declare("a", "kind: Job\nid: tick\nrun: {shell: echo}\nschedule: {once: true}\n")
        wait_until(lambda: "reloaded: added job tick\n" in keeper.said, "it says what it did")
        # There was nothing for workers to do before.
        (run,) = keeper.local.get("/api/v1/runs", job="tick").json["runs"]
        assert keeper.local.ended(run["id"])["state"] == "succeeded"
        names = [one["name"] for one in keeper.local.get("/api/v1/tree").json["children"]]
        assert names == ["gateway", "sending", "engine", "services", "workers", "housekeeping", "sweeps", "watch"]
    assert keeper.said.count("run: missing") == 1
