"""Jobs that are containers, on an engine that answers as no real one does at will."""

import asyncio
import base64
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interlock.model.work import ContainerWork
from interlock.supervision.engines import Patience
from interlock.wire import message as m
from interlock.worker.container_attempt import archive_of
from tests.helpers.engine_peer import Peer, reply, state
from tests.helpers.places import until
from tests.helpers.processes import wait_until
from tests.helpers.server import Server
from tests.process.stage import Stage, executing

pytestmark = pytest.mark.behaviour("EXE-3")

WORK = ContainerWork(image="registry.example/train:1.4")
MISSING = reply(404, {"message": "no such image: registry.example/train:1.4"})
CREATE, PULL, LOOK = "POST containers/create", "POST images/create", "GET c1/json"
REMOVE = "DELETE containers"


def pulled(*lines: object) -> bytes:
    return reply(200, b"".join(json.dumps(line).encode() + b"\r\n" for line in lines))


@asynccontextmanager
async def engine(folder: Path, patch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Stage, Peer]]:
    peer = Peer(folder / "s")
    patch.setenv("DOCKER_HOST", f"unix://{peer.path}")
    patch.setenv("DOCKER_CONFIG", str(folder))
    async with executing() as stage, peer.serving():
        yield stage, peer


async def end_of(stage: Stage) -> m.Finished:
    end = await stage.end(stage.begin(WORK))
    assert isinstance(end, m.Finished)
    return end


@pytest.mark.behaviour("RUN-21")
async def test_the_progress_of_a_pull_is_what_the_start_waits_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with engine(folder, monkeypatch) as (stage, peer):
        layers = [{"status": "Pulling fs layer", "id": name} for name in "abc"]
        peer.answers[PULL] = pulled(
            {"status": "Pulling"}, *layers, {"status": "Pull complete", "id": "a"}, {"status": "x"}
        )
        peer.first[CREATE] = [MISSING]
        peer.answers[LOOK] = state("exited", 0)
        monkeypatch.setattr("interlock.worker.container_attempt.BETWEEN_WORDS", 0.0)
        run_id = stage.begin(WORK)
        end = await stage.end(run_id)
        assert isinstance(end, m.Finished)
        assert (end.outcome, end.result) == ("succeeded", b"null")
        image = "pulls the image registry.example/train:1.4"
        assert stage.starts(run_id) == [
            "creates its container", image, *(f"{image}: {n} layers" for n in ("0 of 1", "0 of 2", "0 of 3", "1 of 3")),
        ]  # fmt: skip


async def test_words_of_a_pull_come_once_a_second(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine(folder, monkeypatch) as (stage, peer):
        peer.answers[PULL] = pulled(*({"status": "Pulling fs layer", "id": str(number)} for number in range(1000)))
        peer.first[CREATE] = [MISSING]
        peer.answers[LOOK] = state("exited", 0)
        run_id = stage.begin(WORK)
        await stage.end(run_id)
        assert len(stage.starts(run_id)) < 100


@pytest.mark.behaviour("RUN-10", "RUN-11")
@pytest.mark.parametrize("held", [PULL, CREATE, "POST c1/start", "PUT c1/archive"])
async def test_a_start_is_cancelled_at_every_step(folder: Path, monkeypatch: pytest.MonkeyPatch, held: str) -> None:
    async with engine(folder, monkeypatch) as (stage, peer):
        peer.held[held] = asyncio.Event()
        peer.answers[PULL] = pulled()
        peer.first[CREATE] = [MISSING] if held == PULL else []
        run_id = stage.begin(WORK)
        await until(lambda: held in peer.asked, "it waits for that")
        stage.ask(run_id)
        peer.held[held].set()
        end = await stage.end(run_id)
        assert isinstance(end, m.Finished)
        assert end.outcome == "cancelled"
        assert not any(isinstance(one, m.Started) for one in stage.heard)
        assert ("DELETE containers" in peer.asked) == (held != PULL), "what may be there is removed"


WORKER = """
import asyncio
from interlock.model.work import ContainerWork
from tests.process.stage import Stage

async def main():
    stage = Stage()
    await stage.executors.open(stage.heard.append)
    stage.begin(ContainerWork(image="registry.example/train:1.4"))
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("held", [CREATE, "POST c1/start"])
async def test_a_worker_that_is_killed_while_it_starts_one_leaves_nothing(folder: Path, held: str) -> None:
    """An engine that is still creating it does not find it yet."""
    peer = Peer(folder / "s")
    peer.held[held] = asyncio.Event()
    peer.first[REMOVE] = [reply(404), reply(404)] if held == CREATE else []
    asked = len(peer.first[REMOVE]) + 1
    async with peer.serving():
        worker = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            WORKER,
            cwd=Path(__file__).parents[2],
            env=os.environ | {"DOCKER_HOST": f"unix://{peer.path}", "DOCKER_CONFIG": str(folder)},
        )
        try:
            await until(lambda: held in peer.asked, "it waits for that")
        finally:
            worker.kill()
            await worker.wait()
        await until(lambda: peer.asked.count(REMOVE) == asked, "its container is removed")
        peer.held[held].set()


@pytest.mark.parametrize("recovers", [True, False])
async def test_one_that_is_given_up_is_removed_when_the_engine_answers_again_or_the_worker_stops(
    folder: Path, monkeypatch: pytest.MonkeyPatch, recovers: bool
) -> None:
    monkeypatch.setattr("interlock.worker.container_attempt.PATIENCE", Patience(quick=0.2, slow=0.2, lost=0.2))
    monkeypatch.setattr("interlock.supervision.guard_client.BETWEEN_REQUESTS", 0.01 if recovers else 1e6)
    async with engine(folder, monkeypatch) as (stage, peer):
        run_id = stage.begin(WORK)
        await stage.started(run_id)
        peer.answers[LOOK] = peer.answers[REMOVE] = reply(500, {"message": "not now"})
        assert isinstance(await stage.end(run_id), m.Lost)
        await until(lambda: REMOVE in peer.asked, "its removal is asked for")
        peer.answers[REMOVE] = reply(204)
        asked = peer.asked.count(REMOVE)
        if not recovers:
            await stage.executors.close()
        await until(lambda: peer.asked.count(REMOVE) == asked + 1, "it is removed")


async def test_one_that_used_up_its_memory_fails_under_that_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine(folder, monkeypatch) as (stage, peer):
        peer.answers[LOOK] = state("exited", 137, OOMKilled=True)
        end = await end_of(stage)
        assert end.failure is not None
        assert (end.outcome, end.error, end.failure.types) == ("failed", "out of memory", ["OOMKilled"])


async def test_what_the_engine_refuses_for_good_fails_for_good(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine(folder, monkeypatch) as (stage, peer):
        peer.answers[CREATE] = reply(400, {"message": "invalid mount config"})
        end = await end_of(stage)
        assert (end.outcome, end.error) == ("failed_fatal", "invalid mount config")
        peer.answers[CREATE] = reply(500, {"message": "no space left"})
        end = await end_of(stage)
        assert (end.outcome, end.error) == ("failed", "no space left")


async def test_a_result_that_cannot_be_read_is_no_success(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine(folder, monkeypatch) as (stage, peer):
        peer.answers[LOOK] = state("exited", 0)
        peer.answers["GET c1/archive"] = reply(500, {"message": "broken"})
        end = await end_of(stage)
        assert (end.outcome, end.error) == ("failed", "its result cannot be read: broken")
        for archive in (b"no archive", archive_of({"/interlock/result.json": b"{}"})[:700], b""):
            peer.answers["GET c1/archive"] = reply(200, archive)
            end = await end_of(stage)
            assert end.outcome == "failed_fatal"
            assert str(end.error).startswith("INTERLOCK_RESULT: the file cannot be read: ")


@pytest.mark.parametrize(
    ("config", "sent"),
    [
        ({"auths": {"registry.example": {"auth": base64.b64encode(b"ann:a:b").decode()}}},
         {"serveraddress": "registry.example", "username": "ann", "password": "a:b"}),
        ({"auths": {"https://registry.example/v1/": {"auth": "", "identitytoken": "t"}}},
         {"serveraddress": "registry.example", "identitytoken": "t"}),
        ({"credHelpers": {"registry.example": "test"}},
         {"serveraddress": "registry.example", "username": "bob", "password": "of registry.example"}),
        ({"auths": {"other.example": {"auth": "x"}}}, None),
        (None, None),
    ],
)  # fmt: skip
async def test_credentials_come_from_the_file_of_docker(
    folder: Path, monkeypatch: pytest.MonkeyPatch, config: object, sent: object
) -> None:
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    helper = folder / "docker-credential-test"
    helper.write_text('#!/bin/sh\nread name; echo "{\\"Username\\": \\"bob\\", \\"Secret\\": \\"of $name\\"}"\n')
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    async with engine(folder, monkeypatch) as (stage, peer):
        peer.first[CREATE] = [MISSING]
        peer.answers[PULL] = pulled()
        peer.answers[LOOK] = state("exited", 0)
        assert (await end_of(stage)).outcome == "succeeded"
        heads = [
            line.partition(": ")[2] for line in peer.heads[PULL].splitlines() if line.startswith("X-Registry-Auth")
        ]
        assert [json.loads(base64.urlsafe_b64decode(one)) for one in heads] == ([] if sent is None else [sent])


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ("{", "cannot be read"),
        ('{"auths": {"registry.example": {"auth": "?"}}}', "auth is not user:password in base64"),
        ('{"credsStore": "nowhere"}', "the credential helper docker-credential-nowhere cannot be started"),
    ],
)
async def test_credentials_that_cannot_be_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch, config: str, error: str
) -> None:
    (folder / "config.json").write_text(config)
    async with engine(folder, monkeypatch) as (stage, peer):
        peer.first[CREATE] = [MISSING]
        end = await end_of(stage)
        assert end.outcome == "failed"
        assert error in str(end.error)
        assert PULL not in peer.asked


FILE = """
kind: Job
id: train
run: {container: "registry.example/train:1.4"}
start_timeout: 1s
grace: 1s
"""


@pytest.mark.behaviour("RUN-21", "RUN-22")
async def test_a_start_that_takes_too_long_is_explained_and_times_out(folder: Path) -> None:
    (folder / "jobs.yaml").write_text(FILE)
    peer = Peer(folder / "s")
    peer.first[CREATE] = [MISSING]
    peer.held[PULL] = asyncio.Event()
    server = Server(folder, "jobs.yaml", "--http", "local", target=None)
    server.extra |= {"DOCKER_HOST": f"unix://{peer.path}", "DOCKER_CONFIG": str(folder)}

    def body() -> None:
        with server:
            run_id = server.local.ask("POST", "/api/v1/runs", {"job": "train"}).json["id"]
            explanation = f"/api/v1/runs/{run_id}/explanation"
            text = "pulls the image registry.example/train:1.4"
            wait_until(lambda: text in str(server.local.get(explanation).json["reasons"]), "its start is explained")
            wait_until(lambda: server.local.get(f"/api/v1/runs/{run_id}").json["ended_at"], "it has ended")
            run = server.local.get(f"/api/v1/runs/{run_id}").json
            assert (run["state"], run["started_at"]) == ("timeout", None)
            assert run["reason"].startswith(f"start_timeout of 1s passed ({text})")
            history = server.local.get(f"/api/v1/runs/{run_id}/history").json["entries"]
            assert [entry["after"] for entry in history][-3:] == ["dispatched", "starting", "timeout"]

    async with peer.serving():
        await asyncio.to_thread(body)
        peer.held[PULL].set()
