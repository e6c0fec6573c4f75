"""Jobs that are containers, on a real engine: what they are given, how they end, and that nothing is left of them."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from interlock.fields import payload as payloads
from interlock.fields.secret import Secret
from interlock.model.policy.verdict import RunLimits
from interlock.model.work import ContainerWork, Pull
from interlock.wire import message as m
from interlock.worker.container_attempt import RUN_LABEL
from tests.helpers.containers import BLOCKED, ContainerEngine, container_engine, registry
from tests.helpers.http import Http
from tests.helpers.places import until
from tests.helpers.processes import wait_until
from tests.helpers.server import Server
from tests.process.stage import Stage, container, dispatch, executing

pytestmark = pytest.mark.behaviour("EXE-3")

FOR_EVER = "while :; do sleep 0.1; done"


@pytest.fixture(scope="module")
def engine() -> Iterator[ContainerEngine]:
    with container_engine() as found, pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", f"unix://{found.socket}")
        yield found


@asynccontextmanager
async def containers(engine: ContainerEngine) -> AsyncIterator[Stage]:
    """Executors; at the end nothing is left in the engine."""
    async with executing() as stage:
        yield stage
        for number in range(1, 10):
            assert engine.labelled(f"{RUN_LABEL}=run-{number}") == []


def ids(engine: ContainerEngine, run_id: str) -> list[str]:
    return engine.labelled(f"{RUN_LABEL}={run_id}")


# ── what it is given, and what it gives ─────────────────────────────────────────────────────────────────────────────


async def test_payload_variables_log_and_result(engine: ContainerEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_WORKER", "1")
    script = (
        'cat $INTERLOCK_PAYLOAD; echo "$INTERLOCK_RUN_ID $INTERLOCK_ATTEMPT $A ${OF_THE_WORKER-none}"; echo oh >&2; '
        "cat $INTERLOCK_PAYLOAD > $INTERLOCK_RESULT"
    )
    async with containers(engine) as stage:
        run_id = stage.begin(container(engine, script, env={"A": "b c", "GONE": None}), {"x": [1, "ü"]})
        end = await stage.end(run_id)
        assert isinstance(end, m.Finished)
        assert (end.outcome, json.loads(end.result or b""), end.error, end.exit_code) == (
            "succeeded", {"x": [1, "ü"]}, None, 0,
        )  # fmt: skip
        assert stage.lines(run_id, "stdout") == ['{"x": [1, "\\u00fc"]}', "run-1 2 b c none"]
        assert stage.lines(run_id, "stderr") == ["oh"]
        assert stage.starts(run_id) == ["creates its container"]


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    """A folder that any user may read."""
    (tmp_path / "data").write_text("mounted")
    tmp_path.chmod(0o755)
    return tmp_path


async def test_limits_user_folder_and_mounts_reach_the_engine(engine: ContainerEngine, mounted: Path) -> None:
    script = f"pwd; id -u; cat /there/data; echo; echo 7 > $INTERLOCK_RESULT; {FOR_EVER}"
    work = container(
        engine, script, user="4711:4711", workdir="/bin", mounts=(f"{mounted}:/there:ro",), memory=2**26, cpus=0.5,
        processes=50,
    )  # fmt: skip
    async with containers(engine) as stage:
        run_id = stage.begin(work)
        await until(lambda: len(stage.lines(run_id)) == 3, "it has printed all")
        assert stage.lines(run_id) == ["/bin", "4711", "mounted"]
        (found,) = ids(engine, run_id)
        host = engine.inspect(found)["HostConfig"]
        assert (host["Memory"], host["NanoCpus"], host["PidsLimit"]) == (2**26, 500_000_000, 50)
        stage.kill(run_id)
        await stage.end(run_id)


async def test_all_payloads_and_only_the_variables_that_the_policy_allows(engine: ContainerEngine) -> None:
    work = container(
        engine, "cat $INTERLOCK_PAYLOADS; cat $INTERLOCK_PAYLOAD; echo ${A-no} ${B-no}", env={"A": "1", "B": "2"}
    )
    attempt = dispatch("run-1", work, {"n": 1})
    attempt = replace(attempt, further=(b'{"n": 2}',), limits=RunLimits(environment=("B*",)))
    async with containers(engine) as stage:
        stage.executors.start(attempt)
        await stage.end("run-1")
        assert stage.lines("run-1") == ['{"n": 1}', '{"n": 2}', '{"n": 2}', "no 2"]


@pytest.mark.behaviour("SEC-5")
async def test_secrets_reach_it_and_not_its_log(engine: ContainerEngine) -> None:
    script = "cat $INTERLOCK_PAYLOAD; echo $API_TOKEN; cp $INTERLOCK_PAYLOAD $INTERLOCK_RESULT; exit 0"
    payload = payloads.encode({"key": Secret("hunter22"), "n": 1}, "payload")
    async with containers(engine) as stage:
        end, lines = await stage.run(container(engine, script, env={"API_TOKEN": "abc12345"}), payload)
        assert "hunter22" not in str([end, lines])
        assert "abc12345" not in str([end, lines])
        assert lines[0].startswith('{"key":')


# ── how it ends ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("echo no > $INTERLOCK_RESULT", "JSON"),
        ("head -c 1048577 /dev/zero > $INTERLOCK_RESULT", "the result has 1,048,577 bytes; the limit is 1,048,576"),
        ("rm $INTERLOCK_RESULT; mkdir $INTERLOCK_RESULT", "not a regular file"),
    ],
)
async def test_a_bad_result_fails_for_good(engine: ContainerEngine, script: str, error: str) -> None:
    async with containers(engine) as stage:
        end, _ = await stage.run(container(engine, _busy(script)))
        assert (end.outcome, end.result, end.exit_code) == ("failed_fatal", None, 0)
        assert error in (end.error or "")


def _busy(script: str) -> str:
    """The image has few programs under their own names."""
    for name in ("head", "rm", "mkdir"):
        script = script.replace(f"{name} ", f"/bin/busybox {name} ")
    return script


async def test_a_result_that_is_removed_is_null(engine: ContainerEngine) -> None:
    async with containers(engine) as stage:
        end, _ = await stage.run(container(engine, _busy("rm $INTERLOCK_RESULT")))
        assert (end.outcome, end.result) == ("succeeded", b"null")


async def test_the_exit_code_decides(engine: ContainerEngine) -> None:
    async with containers(engine) as stage:
        end, _ = await stage.run(container(engine, "echo 1 > $INTERLOCK_RESULT; echo what >&2; exit 3"))
        assert (end.outcome, end.result, end.error, end.exit_code) == (
            "failed",
            None,
            "ended with exit code 3: what",
            3,
        )


@pytest.mark.behaviour("RUN-11")
@pytest.mark.parametrize("is_stubborn", [False, True])
async def test_a_stop_is_term_and_then_kill(engine: ContainerEngine, is_stubborn: bool) -> None:
    trap = "trap 'echo no' TERM" if is_stubborn else "trap 'exit 0' TERM"
    async with containers(engine) as stage:
        run_id = stage.begin(container(engine, f"{trap}; echo up; {FOR_EVER}"))
        await until(lambda: "up" in stage.lines(run_id), "it is up")
        assert not stage.ask(run_id), "there is nothing harder than TERM but to kill it"
        if is_stubborn:
            await until(lambda: "no" in stage.lines(run_id), "it has refused")
            stage.kill(run_id)
        end = await stage.end(run_id)
        assert isinstance(end, m.Finished)
        assert (end.outcome, end.exit_code) == ("cancelled", 137 if is_stubborn else 0)


async def test_one_that_somebody_else_removes_is_lost(engine: ContainerEngine) -> None:
    async with containers(engine) as stage:
        run_id = stage.begin(container(engine, FOR_EVER))
        await stage.started(run_id)
        (found,) = ids(engine, run_id)
        await asyncio.to_thread(Http(engine.socket).ask, "DELETE", f"/containers/{found}", force=1)
        end = await stage.end(run_id)
        assert isinstance(end, m.Lost), end


# ── how it starts ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_image_is_pulled_if_it_is_missing_or_always(engine: ContainerEngine) -> None:
    with registry() as image:
        async with containers(engine) as stage:
            for pull, is_pulled in ((Pull.MISSING, True), (Pull.MISSING, False), (Pull.ALWAYS, True)):
                run_id = stage.begin(container(engine, "echo hello", image=image, pull=pull))
                end = await stage.end(run_id)
                assert isinstance(end, m.Finished)
                assert (end.outcome, stage.lines(run_id)) == ("succeeded", ["hello"])
                reasons = [reason for reason in stage.starts(run_id) if "pulls" in reason]
                assert [reason.startswith(f"pulls the image {image}") for reason in reasons[:1]] == [True] * is_pulled
        engine.remove_image(image)


async def refusal(engine: ContainerEngine, **fields: Any) -> tuple[str, str]:
    async with containers(engine) as stage:
        end, lines = await stage.run(container(engine, "echo up", **fields))
        assert lines == []
        assert not any(isinstance(one, m.Started) for one in stage.heard)
        return str(end.outcome), str(end.error)


async def test_a_missing_image_that_may_not_be_pulled_fails_for_good(engine: ContainerEngine) -> None:
    found = await refusal(engine, image="localhost/nowhere:1", pull=Pull.NEVER)
    assert found == ("failed_fatal", "the image localhost/nowhere:1 is missing, and pull is never")


async def test_an_image_that_cannot_be_pulled_fails(engine: ContainerEngine) -> None:
    outcome, error = await refusal(engine, image=f"{BLOCKED}/some:1")
    assert outcome == "failed"
    assert error.startswith(f"the image {BLOCKED}/some:1 is missing and cannot be pulled: ")


async def test_without_an_engine_it_fails_and_says_where_it_looked(
    engine: ContainerEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    outcome, error = await refusal(engine)
    assert outcome == "failed"
    assert error.startswith(f"engine: no Docker or Podman answers at {tmp_path}/none.sock")


async def test_an_old_offer_is_not_begun(engine: ContainerEngine) -> None:
    attempt = replace(dispatch("run-1", container(engine, "echo up")), begin_by=0.0)
    async with containers(engine) as stage:
        stage.executors.start(attempt)
        await until(lambda: stage.heard, "it has answered")
        assert stage.heard == [m.Expired("run-1", 1)]


# ── with its worker ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_it_ends_with_the_executors(engine: ContainerEngine) -> None:
    async with containers(engine) as stage:
        run_id = stage.begin(container(engine, f"trap '' TERM; echo up; {FOR_EVER}"))
        await until(lambda: stage.lines(run_id), "it is up")
        await stage.executors.close()
        assert isinstance(await stage.end(run_id), m.Lost)


WORKER = """
import asyncio, os, sys
from interlock.model.work import ContainerWork
from interlock.wire.message import Started
from tests.process.stage import Stage

async def main(image):
    stage = Stage()
    await stage.executors.open(stage.heard.append)
    command = ("/bin/sh", "-c", "trap '' TERM; while :; do sleep 0.1; done")
    work = ContainerWork(image=image, network="none", command=command)
    run_id = stage.begin(work)
    await stage.started(run_id)
    print("up", flush=True)
    await asyncio.Event().wait()

asyncio.run(main(sys.argv[1]))
"""


def test_it_ends_with_its_worker_even_if_that_is_killed(engine: ContainerEngine) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WORKER, engine.image],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"DOCKER_HOST": f"unix://{engine.socket}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    ) as worker:
        try:
            assert worker.stdout is not None
            assert worker.stdout.readline() == b"up\n"
            assert len(ids(engine, "run-1")) == 1
        finally:
            worker.kill()
    wait_until(lambda: ids(engine, "run-1") == [], "the container is gone")


FILE = """
kind: Job
id: train
run:
  container: {image: IMAGE, command: [/bin/sh, -c, "echo up; while :; do sleep 0.1; done"], network: none}
env: {EPOCHS: "3"}
start_timeout: 1m
grace: 200ms
"""


def serving(engine: ContainerEngine, folder: Path, text: str = FILE) -> Server:
    (folder / "jobs.yaml").write_text(text.replace("IMAGE", engine.image))
    server = Server(folder, "jobs.yaml", "--http", "local", target=None)
    server.extra["DOCKER_HOST"] = f"unix://{engine.socket}"
    return server


def submitted(server: Server) -> str:
    """A run that is up."""
    run_id = str(server.local.ask("POST", "/api/v1/runs", {"job": "train"}).json["id"])
    wait_until(lambda: server.local.get(f"/api/v1/runs/{run_id}/logs").json["lines"] != [], "it is up")
    return run_id


def ended(server: Server, run_id: str) -> dict[str, Any]:
    wait_until(lambda: server.local.get(f"/api/v1/runs/{run_id}").json["ended_at"], "it has ended")
    found: dict[str, Any] = server.local.get(f"/api/v1/runs/{run_id}").json
    return found


@pytest.mark.behaviour("RUN-10", "RUN-11")
def test_from_a_file_to_the_history(engine: ContainerEngine, folder: Path) -> None:
    with serving(engine, folder) as server:
        run_id = submitted(server)
        server.local.ask("POST", f"/api/v1/runs/{run_id}/cancel", {})
        ended(server, run_id)
        history = server.local.get(f"/api/v1/runs/{run_id}/history").json["entries"]
        states = [entry["after"] for entry in history]
        assert states[-5:] == ["dispatched", "starting", "running", "terminating", "cancelled"]
        assert history[-4]["reason"] == "creates its container"
        assert ids(engine, run_id) == []


@pytest.mark.behaviour("LIV-4")
def test_it_goes_on_while_the_scheduler_is_killed(engine: ContainerEngine, folder: Path) -> None:
    until_told = FILE.replace("while :; do", "while [ ! -e /there/go ]; do").replace(
        "none}", 'none, mounts: ["./:/there"]}'
    )
    with serving(engine, folder, until_told) as server:
        run_id = submitted(server)
        server.kill()
        server.start()
        assert len(ids(engine, run_id)) == 1
        (folder / "go").touch()
        run = ended(server, run_id)
        assert (run["state"], run["attempt"]) == ("succeeded", 1)
        assert ids(engine, run_id) == []
        server.wait_for_strays()


def test_the_words_of_a_container() -> None:
    assert str(ContainerWork(image="a:1", command=("echo", "a b"))) == "a:1 echo 'a b'"
