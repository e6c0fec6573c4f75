"""Containers as children, with a real engine: what is printed, how they end, and that nothing of them is left."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from interlock.error import BadValue, CannotStart, WrongStatus
from interlock.model.child_info import Exit
from interlock.supervision import Backoff, Restart, Supervisor
from interlock.supervision.container import CHILD_LABEL, RESUME_LABEL, ContainerInstance, container_name
from interlock.supervision.instance import Birth, Surroundings
from interlock.supervision.output import CUT, LONGEST_LINE
from interlock.supervision.spec import Container
from tests.helpers.containers import BLOCKED, ContainerEngine, Podman, container_engine, registry
from tests.helpers.http import Raw
from tests.helpers.places import LIMIT, until
from tests.helpers.processes import sockets, wait_until

PATH = "services/shop/web"
BIRTH = Birth(path=PATH, name="web", resume_id=f"test-{os.getpid()}", previous=Exit(at=1.0, code=3), restarts=1)
FOR_EVER = "while :; do sleep 0.1; done"
OBEDIENT = f"trap 'exit 7' TERM; echo up; {FOR_EVER}"

pytestmark = pytest.mark.behaviour("SUP-10")


@pytest.fixture(scope="module")
def engine() -> Iterator[ContainerEngine]:
    with container_engine() as found:
        yield found


class Stage:
    """Makes containers of one child, and keeps what they print and report."""

    def __init__(self, engine: ContainerEngine) -> None:
        self.engine = engine
        self.lines: list[tuple[str, str]] = []
        self.requests: list[tuple[str, bytes]] = []
        """what removes a container that was made"""
        self.removed = 0
        self.when_created: Callable[[], None] = lambda: None

    def make(self, script: str = FOR_EVER, **fields: Any) -> ContainerInstance:
        given = {"image": self.engine.image, "network": "none", "command": ("/bin/sh", "-c", script)} | fields
        spec = Container(name="web", engine=str(self.engine.socket), **given)
        return ContainerInstance(spec, BIRTH, Surroundings(on_line=self._print, guard=self))  # type: ignore[arg-type]

    async def start(self, script: str = FOR_EVER, **fields: Any) -> ContainerInstance:
        instance = self.make(script, **fields)
        await instance.start()
        return instance

    async def lived(self, script: str, **fields: Any) -> Exit:
        return await (await self.start(script, **fields)).ended

    def _print(self, path: str, stream: str, line: str, at: float) -> None:
        assert path == PATH
        assert abs(at - time.time()) < LIMIT
        self.lines.append((stream, line))

    def remember(self, key: str, socket: str, request: bytes) -> None:
        self.requests.append((socket, request))
        self.when_created()

    def disregard(self, key: str) -> None:
        self.removed += 1

    def pursue(self, key: str) -> None:
        """Nothing of it may be left by then."""

    @property
    def out(self) -> list[str]:
        return [line for stream, line in self.lines if stream == "stdout"]

    async def printed(self, line: str) -> None:
        await until(lambda: line in self.out, f"{line!r} is printed")

    def containers(self) -> list[str]:
        return self.engine.labelled(f"{RESUME_LABEL}={BIRTH.resume_id}")

    @property
    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = self.engine.inspect(container_name(BIRTH))["State"]
        return found


@pytest.fixture
def stage(engine: ContainerEngine, request: pytest.FixtureRequest) -> Stage:
    """Runs the test on uvloop, or as it says; afterwards nothing may be left in the engine or in this process."""
    stage = Stage(engine)

    async def all_of_it(body: Callable[[], Coroutine[Any, Any, None]]) -> None:
        before = sockets()
        await asyncio.wait_for(body(), LIMIT)
        assert stage.containers() == []
        assert asyncio.all_tasks() == {asyncio.current_task()}
        await until(lambda: sockets() <= before, "every connection is closed", 10.0)

    run = getattr(request, "param", uvloop.run)
    request.node.run_test = lambda body: run(all_of_it(body))
    return stage


# ── what it prints, and what it is given ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("stage", [asyncio.run, uvloop.run], indirect=True)
async def test_lines_and_exit_code(stage: Stage) -> None:
    long = "printf '%016000d\\n' 7; printf '%050000d\\n' 7"
    exit = await stage.lived(f"echo one; echo; echo two >&2; {long}; echo ümlaut; printf end; exit 3")
    assert (exit.code, exit.signal, exit.error) == (3, None, "")
    cut = "0" * LONGEST_LINE + CUT
    assert stage.out == ["one", "", "7".zfill(16000), cut, "ümlaut", "end"]
    assert [line for stream, line in stage.lines if stream == "stderr"] == ["two"]
    assert len(stage.requests) == stage.removed == 1


async def test_what_waits_for_a_line_hears_it(stage: Stage) -> None:
    instance = stage.make("echo starting; echo ready")
    heard: list[str] = []
    instance.on_line = heard.append
    await instance.start()
    assert (await instance.ended).ok
    assert heard == ["starting", "ready"]


async def test_it_gets_what_it_was_promised(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "greeting").write_text("from outside")
    os.chmod(tmp_path, 0o755)
    settings = {
        "env": {"PORT": "9000", "GONE": None, "INTERLOCK_RESUME_ID": "somebody else"},
        "cwd": "/data",
        "user": "12:34",
        "volumes": [f"{tmp_path}:/data:ro"],
        "memory": 64 * 2**20,
        "cpus": 0.5,
    }
    exit = await stage.lived("env; pwd; id -u; id -g; cat greeting; echo; true > written", **settings)
    assert exit.code != 0
    assert {f"INTERLOCK_RESUME_ID={BIRTH.resume_id}", "INTERLOCK_PREV_EXIT=3", "PORT=9000"} <= set(stage.out)
    assert "GONE" not in "".join(stage.out)
    assert stage.out[-4:] == ["/data", "12", "34", "from outside"]


async def test_an_engine_is_told_of_limits_ports_and_labels(stage: Stage) -> None:
    found: list[dict[str, Any]] = []
    stage.when_created = lambda: found.append(stage.engine.inspect(container_name(BIRTH)))
    fields = {"memory": 64 * 2**20, "cpus": 0.5, "ports": ["18080:80", "127.0.0.1:18081:81/udp"]}
    # Where nothing has a network of its own, the start fails, after everything was told.
    instance = stage.make("true", network="bridge", **fields)
    try:
        await instance.start()
        await instance.ended
    except CannotStart:
        pass
    host, config = found[0]["HostConfig"], found[0]["Config"]
    assert (host["Memory"], host["NanoCpus"]) == (64 * 2**20, 500_000_000)
    assert host["PortBindings"]["80/tcp"][0]["HostPort"] == "18080"
    assert host["PortBindings"]["81/udp"] == [{"HostIp": "127.0.0.1", "HostPort": "18081"}]
    assert config["Labels"] == config["Labels"] | {CHILD_LABEL: PATH, RESUME_LABEL: BIRTH.resume_id}
    assert found[0]["Name"].startswith("/interlock-services-shop-web-")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ports", "80"),
        ("ports", "80:99999"),
        ("ports", "0:80"),
        ("ports", "a:b"),
        ("ports", "80:80/icmp"),
        ("ports", "localhost:80:80"),
        ("volumes", "./data:/data"),
        ("volumes", "/data:data"),
        ("volumes", "/data"),
        ("volumes", ":/data"),
    ],
)
def test_a_port_or_volume_that_is_none(field: str, value: str) -> None:
    with pytest.raises(BadValue) as caught:
        Container(name="web", image="any", **{field: [value]})  # type: ignore[arg-type]
    assert caught.value.field == f"{field}[0]"
    assert repr(value) in str(caught.value)


# ── how it ends ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_asked_to_end_it_ends_as_it_likes(stage: Stage) -> None:
    instance = await stage.start(OBEDIENT)
    await stage.printed("up")
    assert instance.pid is not None
    await instance.stop(30.0)
    await instance.stop(30.0)
    assert (instance.ended.result().code, instance.forced) == (7, False)


async def test_one_that_does_not_end_is_killed_in_time(stage: Stage) -> None:
    instance = await stage.start(f"trap '' TERM; echo up; {FOR_EVER}")
    await stage.printed("up")
    begun = time.monotonic()
    await instance.stop(0.4)
    assert 0.4 <= time.monotonic() - begun < 20.0
    assert (instance.ended.result().code, instance.forced) == (137, True)


async def test_killed_at_once_even_while_it_is_being_stopped(stage: Stage) -> None:
    instance = await stage.start(f"trap '' TERM; echo up; {FOR_EVER}")
    await stage.printed("up")
    stopping = asyncio.get_running_loop().create_task(instance.stop(1000.0))
    await asyncio.wait([stopping], timeout=0)
    instance.kill()
    instance.kill()
    assert (await instance.ended).code == 137
    await stopping
    assert instance.forced


async def test_killed_before_it_lives_it_does_not_live_long(stage: Stage) -> None:
    instance = stage.make()
    instance.kill()
    await instance.start()
    assert (await instance.ended).code == 137


async def test_never_started_it_is_stopped_at_once(stage: Stage) -> None:
    instance = stage.make()
    await instance.stop(1000.0)
    assert stage.requests == []
    assert instance.ended.result().ok


async def test_suspended_and_resumed(stage: Stage) -> None:
    instance = await stage.start(OBEDIENT)
    await stage.printed("up")
    assert instance.can_suspend
    with pytest.raises(WrongStatus, match="could not be resumed"):
        await instance.resume()
    await instance.suspend()
    assert stage.state["Status"] == "paused"
    await instance.resume()
    assert stage.state["Status"] == "running"
    await instance.suspend()
    await instance.stop(30.0)
    assert (instance.ended.result().code, instance.forced) == (7, False)
    with pytest.raises(WrongStatus, match="does not run"):
        await instance.suspend()


async def test_killed_while_it_is_suspended(stage: Stage) -> None:
    instance = await stage.start()
    await instance.suspend()
    instance.kill()
    assert (await instance.ended).code == 137


async def test_removed_by_somebody_else(stage: Stage) -> None:
    """With the request that is kept for when the supervisor is gone, sent by somebody who knows nothing more."""
    instance = await stage.start()
    socket, request = stage.requests[0]
    with Raw(Path(socket)) as raw:
        raw.send(request)
        assert raw.answer().status == 204
    assert stage.containers() == []
    assert not (await instance.ended).ok


async def test_restarted_by_somebody_else_it_is_followed_on(stage: Stage) -> None:
    instance = await stage.start(OBEDIENT)
    await stage.printed("up")
    await asyncio.to_thread(stage.engine.post, f"/containers/{container_name(BIRTH)}/restart", t=5)
    await until(lambda: stage.out.count("up") == 2, "it prints again")
    assert not instance.ended.done()
    await instance.stop(30.0)
    assert instance.ended.result().code == 7


# ── how it begins ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("label", [RESUME_LABEL, "somebody.else"])
async def test_what_an_earlier_life_left_is_replaced(stage: Stage, label: str) -> None:
    name = container_name(BIRTH)
    left = {"Image": stage.engine.image, "Cmd": ["/bin/sleep", "1000"], "Labels": {label: BIRTH.resume_id}}
    left["HostConfig"] = {"NetworkMode": "none"}
    # With the label it is known under any name, and with the name under any label.
    found = stage.engine.post("/containers/create", left, name=name if label != RESUME_LABEL else f"{name}-old")
    stage.engine.post(f"/containers/{found['Id']}/start")
    assert (await stage.lived("echo new")).ok
    assert stage.out == ["new"]
    assert stage.engine.labelled(f"{label}={BIRTH.resume_id}") == []


async def test_a_user_that_does_not_exist(stage: Stage) -> None:
    with pytest.raises(CannotStart, match=rf"^{PATH}: could not be started \(.*nobody-of-that-name.*\)$"):
        await stage.start(user="nobody-of-that-name")


async def test_an_image_that_is_not_there(stage: Stage) -> None:
    image = f"{BLOCKED}/nothing:1"
    with pytest.raises(CannotStart) as caught:
        await stage.start(image=image)
    assert f"the image {image} is missing and cannot be pulled: " in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_an_image_that_is_not_there_is_pulled(stage: Stage, engine: ContainerEngine) -> None:
    if not isinstance(engine, Podman):
        pytest.skip("an engine that is not made for the tests does not trust their registry")
    with registry() as image:
        assert (await stage.lived("echo pulled", image=image, command=("/bin/sh", "-c", "echo pulled"))).ok
    assert stage.out == ["pulled"]
    stage.engine.remove_image(image)


@pytest.mark.parametrize("moment", [0.0, 0.01, 0.03, 0.06, 0.1])
async def test_cancelled_while_it_starts(stage: Stage, moment: float) -> None:
    """Whatever it is doing then, nothing is left; the stage looks."""
    instance = stage.make()
    starting = asyncio.get_running_loop().create_task(instance.start())
    await asyncio.wait([starting], timeout=moment)
    starting.cancel()
    await asyncio.wait([starting])
    if not starting.cancelled():
        await instance.stop(0.0)


async def test_cancelled_between_creation_and_start(stage: Stage) -> None:
    instance = stage.make()
    starting = asyncio.get_running_loop().create_task(instance.start())

    def cancel() -> None:
        starting.cancel()

    stage.when_created = cancel
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert len(stage.requests) == stage.removed == 1


# ── in a supervisor ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("SUP-7")
async def test_a_container_is_kept_up(stage: Stage) -> None:
    lines: list[str] = []
    child = Container(
        name="web",
        image=stage.engine.image,
        command=("/bin/sh", "-c", "echo after $INTERLOCK_PREV_EXIT as $INTERLOCK_RESUME_ID; exit 4"),
        network="none",
        engine=str(stage.engine.socket),
        restart=Restart.ON_FAILURE,
        backoff=Backoff(initial=0.0, max=0.0),
    )
    async with Supervisor(children=[child], on_line=lambda path, stream, line, at: lines.append(line)):
        await until(lambda: len(lines) >= 3, "it lives for the third time")
    first, second, third = (line.split() for line in lines[:3])
    assert [first[1], second[1], third[1]] == ["-1", "4", "4"]
    assert first[3] == second[3] == third[3]
    assert stage.engine.labelled(f"{RESUME_LABEL}={first[3]}") == []


SUPERVISOR = """
import asyncio, sys
from interlock.supervision import Container, Supervisor

async def main(name, image, engine):
    command = ("/bin/sh", "-c", "trap '' TERM; while :; do sleep 0.1; done")
    child = Container(name=name, image=image, command=command, network="none", engine=engine)
    async with Supervisor(children=[child]):
        print("up", flush=True)
        await asyncio.Event().wait()

asyncio.run(main(*sys.argv[1:]))
"""


def test_a_container_ends_with_its_supervisor_even_if_that_is_killed(engine: ContainerEngine) -> None:
    name = f"web-{os.getpid()}"
    command = [sys.executable, "-c", SUPERVISOR, name, engine.image, str(engine.socket)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as supervisor:
        try:
            assert supervisor.stdout is not None
            assert supervisor.stdout.readline() == b"up\n"
            assert len(engine.labelled(f"{CHILD_LABEL}={name}")) == 1
        finally:
            supervisor.kill()
    wait_until(lambda: engine.labelled(f"{CHILD_LABEL}={name}") == [], "the container is gone")


# ── when the engine goes away ───────────────────────────────────────────────────────────────────────────────────────


async def test_an_engine_that_is_killed_and_comes_back(stage: Stage, engine: ContainerEngine) -> None:
    if not isinstance(engine, Podman):
        pytest.skip("an engine that is not made for the tests is not killed")
    script = "i=0; while [ $i -lt 60 ]; do i=$((i+1)); echo $i; echo $i >&2; sleep 0.02; done; exit 5"
    instance = await stage.start(script)
    await stage.printed("5")
    await asyncio.to_thread(engine.kill)
    await asyncio.to_thread(engine.start)
    assert (await instance.ended).code == 5
    for stream in ("stdout", "stderr"):
        assert [line for name, line in stage.lines if name == stream] == [str(i) for i in range(1, 61)]
