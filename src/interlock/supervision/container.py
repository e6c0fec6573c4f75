"""A container of Docker or Podman, as a child or an attempt: created for each life, followed to its end, removed."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any
from uuid import uuid4

from interlock.error import CannotStart, WrongStatus
from interlock.model.child_info import Exit
from interlock.supervision import engines
from interlock.supervision.goal import insist
from interlock.supervision.instance import Birth, NativeInstance, Surroundings
from interlock.supervision.output import Output
from interlock.supervision.registries import credentials_for
from interlock.supervision.spec import Container, parse_port
from interlock.task_set import TaskSet

logger = logging.getLogger("interlock.supervision")

CHILD_LABEL = "interlock.child"
RESUME_LABEL = "interlock.resume_id"
LAST_WORDS = 5.0  # seconds to read the rest of its output when it has ended
LONGEST_PAUSE = 5.0  # seconds between tries to read a log that cannot be read
BETWEEN_LOOKS = 2.0  # seconds between looks at a container whose log goes on


class ContainerInstance(NativeInstance):
    can_suspend = True

    def __init__(
        self, spec: Container, birth: Birth, around: Surroundings, patience: engines.Patience = engines.PATIENCE
    ) -> None:
        super().__init__(birth, around)
        self._spec = spec
        self._patience = patience
        self._name = container_name(birth)
        self._engine: engines.EngineApi | None = None
        self._creating: asyncio.Task[str] | None = None
        self._id = ""
        self._key = f"{birth.path} {uuid4()}"
        """names the guard's request to remove it: containers belong to their engine, which does not know us"""
        self._stop_signal = "SIGTERM"
        self._place = engines.LogPlace()
        self._output = Output(self._deliver, lambda: self.on_line)
        self._log_ended = asyncio.Event()
        self._over: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        """settled when the container has ended, or is given up; its remains are removed after that"""
        self._living: asyncio.Task[None] | None = None
        self._tasks = TaskSet()  # requests under way; all end before this instance does
        self.is_out_of_memory = False  # whether it ended because of that
        self._is_killed = False
        self._is_paused = False
        self._is_given_up = False

    async def start(self) -> None:
        try:
            await self._begin()
        except BaseException as error:
            await insist(self._tasks.begin(self._undo()))
            if isinstance(error, engines.EngineError):
                raise CannotStart(self._birth.path, str(error)) from error
            raise
        self._living = asyncio.get_running_loop().create_task(self._live(), name=self._birth.path)
        if self._is_killed:
            self.kill()

    async def _begin(self) -> None:
        engine = self._engine = await engines.open_engine(self._spec.engine, self._patience)
        await self._clear(engine)
        self._id = await self._create(engine)
        self._around.guard.remember(self._key, engine.socket, engine.removal_request(self._id))
        self._stop_signal = (await engine.inspect(self._id)).config.stop_signal or self._stop_signal
        await self._fill(engine)
        await engine.start(self._id)
        with suppress(engines.EngineError):
            self.pid = (await engine.inspect(self._id)).state.pid or None

    async def _clear(self, engine: engines.EngineApi) -> None:
        """Remove the container of an earlier life: left if the engine was away, or the machine went down."""
        for leftover in await engine.labelled(f"{RESUME_LABEL}={self._birth.resume_id}"):
            await engine.remove(leftover)

    async def _fill(self, engine: engines.EngineApi) -> None:
        """Put files into the container before it starts."""

    async def _collect(self, engine: engines.EngineApi) -> None:
        """Read files from the container that has ended, before it is removed."""

    def _configuration(self) -> dict[str, Any]:
        labels = {CHILD_LABEL: self._birth.path, RESUME_LABEL: self._birth.resume_id}
        env = {name: value for name, value in self._spec.env.items() if value is not None}
        return configuration(self._spec, env | self._birth.environment(), labels)

    async def _create(self, engine: engines.EngineApi) -> str:
        config = self._configuration()
        pulled = cleared = False
        while True:
            # It continues when the caller is cancelled: only the answer shows whether there is a container to remove.
            self._creating = asyncio.get_running_loop().create_task(engine.create(self._name, config))
            try:
                return await asyncio.shield(self._creating)
            except engines.EngineError as error:
                if error.image_is_missing and not pulled:
                    pulled = True
                    await self._pull(engine)
                elif error.name_is_taken and not cleared:
                    cleared = True
                    await engine.remove(self._name)
                else:
                    raise

    async def _pull(self, engine: engines.EngineApi) -> None:
        image = self._spec.image
        logger.info("%s: pulling the image %s", self._birth.path, image)
        try:
            await engine.pull(image, await credentials_for(image), self._note_pull)
        except engines.EngineError as error:
            raise engines.EngineError(f"the image {image} is missing and cannot be pulled: {error}") from error

    def _note_pull(self, how_far: str) -> None:
        """Take note of how far the image is pulled."""

    async def _undo(self) -> None:
        """Remove what a failed start may have created."""
        if self._engine is None:
            return
        may_exist, error = False, None
        if self._creating is not None:
            await asyncio.wait([self._creating])
            error = self._creating.exception()
            may_exist = not isinstance(error, engines.EngineError) or error.status is None
        if may_exist:
            # An engine that does not answer does not get long.
            with suppress(TimeoutError):
                async with asyncio.timeout(None if error is None else self._patience.quick):
                    await self._remove(self._engine, self._name)
            self._around.guard.pursue(self._key)
        else:
            self._around.guard.disregard(self._key)
        await self._engine.close()

    async def _live(self) -> None:
        """Follow it until nothing is left of it."""
        engine = self._engine
        assert engine is not None
        following = TaskSet()
        following.begin(self._watch(engine))
        following.begin(self._follow(engine))
        exit = await self._over
        following.cancel()
        if self._is_given_up:
            self._tasks.cancel()
        await following.end()
        await self._tasks.end()
        try:
            if not self._is_given_up:
                await self._read_rest(engine)
                await self._collect(engine)
                await self._remove(engine, self._id)
            self._output.close()
            await engine.close()
        finally:
            self.settle(exit)
            self._around.guard.pursue(self._key)

    async def _watch(self, engine: engines.EngineApi) -> None:
        """Look when its log ends, as it does with the container, and every few seconds."""
        try:
            while (state := await self._look(engine)) is not None and state.status not in engines.OVER:
                self._log_ended.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(BETWEEN_LOOKS):
                        await self._log_ended.wait()
        except Exception as error:
            if not isinstance(error, engines.EngineError):
                logger.exception("%s: its container cannot be watched", self._birth.path)
            self._give_up(f"its state is unknown: {error}")
        else:
            if not self._over.done():
                self._over.set_result(self._exit_of(state))

    async def _look(self, engine: engines.EngineApi) -> engines.ContainerState | None:
        """Return its state, None if it does not exist. Wait a limited time for an engine that is away."""
        loop = asyncio.get_running_loop()
        lost_at: float | None = None
        while True:
            try:
                return (await engine.inspect(self._id)).state
            except engines.EngineError as error:
                if error.status == 404:
                    return None
                if lost_at is None:
                    lost_at = loop.time()
                    logger.warning("%s: %s", self._birth.path, error)
                elif loop.time() - lost_at > self._patience.lost:
                    raise
            await asyncio.sleep(engines.PAUSE)

    def _exit_of(self, state: engines.ContainerState | None) -> Exit:
        if state is None:
            return self._exit(error="its container was removed")
        self.is_out_of_memory = state.oom_killed
        error = "out of memory" if state.oom_killed else state.error
        return self._exit(state.exit_code, error=" ".join(error.split()))

    def _give_up(self, why: str) -> None:
        """Leave a container that can be neither seen nor ended to requests that go on after this instance."""
        if not self._over.done():
            logger.warning("%s: its container %s is to be removed later: %s", self._birth.path, self._name, why)
            self._is_given_up = True
            self._over.set_result(self._exit(error=why))

    async def _remove(self, engine: engines.EngineApi, container: str) -> None:
        try:
            await engine.remove(container)
        except engines.EngineError as error:
            logger.warning("%s: its container %s could not be removed: %s", self._birth.path, self._name, error)
        else:
            self._around.guard.disregard(self._key)

    async def _follow(self, engine: engines.EngineApi) -> None:
        pause, is_reported = engines.PAUSE, False
        while True:
            place = self._place.reached
            try:
                await engine.read_log(self._id, self._place, self._output.take, follow=True)
            except engines.EngineError as error:
                if error.status is not None and not is_reported:
                    is_reported = True
                    logger.warning("%s: its output cannot be read: %s", self._birth.path, error)
            # It has ended, or the engine went away, or has no log.
            self._log_ended.set()
            pause = engines.PAUSE if self._place.reached != place else min(pause * 2, LONGEST_PAUSE)
            await asyncio.sleep(pause)

    async def _read_rest(self, engine: engines.EngineApi) -> None:
        """Read its last output, which may come after its end is known."""
        try:
            async with asyncio.timeout(LAST_WORDS):
                await engine.read_log(self._id, self._place, self._output.take, follow=False)
        except engines.EngineError:
            pass  # it was removed with its log, or `_follow` has logged the reason
        except TimeoutError:
            logger.warning("%s: printed too much for its last output to be read in time", self._birth.path)

    def ask(self) -> None:
        """Ask it to end. Not by the engine's own stop: it takes whole seconds only, and Podman answers nothing else
        meanwhile and refuses it for a suspended container."""
        self._is_asked = True
        if self._living is not None and not self._over.done():
            self._tasks.begin(self._ask_to_end())

    async def stop(self, timeout: float) -> None:
        self._is_asked = True
        if self._living is None:
            self.settle(self._exit(0))
            return
        if timeout > 0:
            self.ask()
            await asyncio.wait([self._over], timeout=timeout)
        self.kill()
        await asyncio.wait([self.ended])

    def kill(self) -> None:
        self._is_killed = True
        if self._living is not None and not self._over.done():
            self._tasks.begin(self._end_by_force())

    async def _ask_to_end(self) -> None:
        assert self._engine is not None
        if self._is_paused:
            with suppress(engines.EngineError):
                await self._engine.change(self._id, "unpause")
        await self._signal(self._stop_signal)

    async def _end_by_force(self) -> None:
        try:
            async with asyncio.timeout(self._patience.quick):
                self.forced = (await self._signal("SIGKILL") and self._is_asked) or self.forced
        except TimeoutError:
            self._give_up("the engine did not take the request to kill it")
        # Look at once, in case its log does not end with it.
        self._log_ended.set()
        await asyncio.wait([self._over], timeout=self._patience.slow)
        self._give_up("it did not end although it was killed")

    async def _signal(self, signal: str) -> bool:
        """Send a signal until the engine takes it or the container ends; return whether the engine took it."""
        assert self._engine is not None
        while not self._over.done():
            with suppress(engines.EngineError):
                await self._engine.change(self._id, "kill", signal=signal)
                return True
            await asyncio.wait([self._over], timeout=engines.PAUSE)
        return False

    async def suspend(self) -> None:
        await self._change("pause", "suspended")
        self._is_paused = True

    async def resume(self) -> None:
        await self._change("unpause", "resumed")
        self._is_paused = False

    async def _change(self, action: str, what: str) -> None:
        if self._engine is None or self._over.done():
            raise WrongStatus(f"{self._birth.path}: could not be {what} (it does not run)")
        try:
            await self._engine.change(self._id, action)
        except engines.EngineError as error:
            raise WrongStatus(f"{self._birth.path}: could not be {what} ({error})") from error


def container_name(birth: Birth) -> str:
    """Return a name that all lives of a child share, but no child of another tree."""
    mark = sha256(f"{birth.path}\0{birth.resume_id}".encode()).hexdigest()[:12]
    return f"interlock-{birth.path.replace('/', '-')}-{mark}"


def configuration(spec: Container, env: Mapping[str, str], labels: Mapping[str, str]) -> dict[str, Any]:
    """Return the engine's description of a container."""
    exposed: dict[str, Any] = {}
    bindings: dict[str, list[dict[str, str]]] = {}
    for port in spec.ports:
        parsed = parse_port(port)
        assert parsed is not None  # its description was checked
        address, outside, inside, protocol = parsed
        exposed[f"{inside}/{protocol}"] = {}
        bindings.setdefault(f"{inside}/{protocol}", []).append({"HostIp": address, "HostPort": str(outside)})
    host = {
        "Binds": list(spec.volumes),
        "PortBindings": bindings,
        # With the engine's own init, signals reach a program that was not written to be the first process, and its
        # orphans are reaped.
        "Init": True,
        "AutoRemove": False,
        "RestartPolicy": {"Name": "no"},
        "NetworkMode": spec.network,
        "Memory": spec.memory,
        "PidsLimit": spec.processes,
        "NanoCpus": None if spec.cpus is None else round(spec.cpus * 1e9),
    }
    config = {
        "Image": spec.image,
        "Env": [f"{name}={value}" for name, value in env.items()],
        "Labels": dict(labels),
        "ExposedPorts": exposed,
        "HostConfig": _given(host),
        "Cmd": list(spec.command) or None,
        "WorkingDir": spec.cwd,
        "User": spec.user,
    }
    return _given(config)


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
