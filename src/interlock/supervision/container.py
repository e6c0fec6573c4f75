"""A child that is a container of Docker or Podman: made anew for each life, followed to its end, and removed."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from hashlib import sha256
from typing import Any

from interlock.model.child_info import Exit
from interlock.model.error import CannotStart, WrongStatus
from interlock.supervision.container_log import LogLines, LogPlace
from interlock.supervision.engines import PATIENCE, PAUSE, Engine, EngineError, Patience, State, open_engine
from interlock.supervision.instance import Birth, Instance, LineSink
from interlock.supervision.spec import Container, check_port

logger = logging.getLogger("interlock.supervision")

CHILD_LABEL = "interlock.child"
RESUME_LABEL = "interlock.resume_id"
LAST_WORDS = 5.0
"""seconds in which what it has printed is read when it has ended"""
LONGEST_PAUSE = 5.0
"""seconds between tries to read a log that cannot be read"""


class ContainerInstance(Instance):
    def __init__(
        self,
        spec: Container,
        birth: Birth,
        sink: LineSink | None,
        now: Callable[[], float],
        *,
        on_created: Callable[[str, bytes], Awaitable[None]] | None = None,
        on_removed: Callable[[], None] | None = None,
        patience: Patience = PATIENCE,
    ) -> None:
        """`on_created` is called with the engine's socket and a request that, sent there as it is, ends and removes the
        container, before that is started; `on_removed` when there is no need for it any more."""
        super().__init__()
        self._spec = spec
        self._birth = birth
        self._sink = sink
        self._now = now
        self._on_created = on_created
        self._on_removed = on_removed
        self._patience = patience
        self._name = container_name(birth)
        self._engine: Engine | None = None
        self._creating: asyncio.Task[str] | None = None
        self._id = ""
        self._since = 0
        self._stop_signal = "SIGTERM"
        self._place = LogPlace()
        self._output = LogLines(self._deliver, lambda: self._show if self.on_line is not None else None)
        self._over: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        """settled when the container has ended, or is given up; what is left of it is removed after that"""
        self._living: asyncio.Task[None] | None = None
        self._errands: set[asyncio.Task[None]] = set()
        self._is_asked = False
        self._is_killed = False
        self._is_paused = False
        self._is_given_up = False
        self._forced = False

    # ── its beginning ───────────────────────────────────────────────────────────────────────────────────────────────

    async def start(self) -> None:
        try:
            await self._begin()
        except BaseException as error:
            cancelled = await _through(self._undo())
            if cancelled and not isinstance(error, asyncio.CancelledError):
                raise asyncio.CancelledError from error
            if isinstance(error, EngineError):
                raise CannotStart(self._birth.path, str(error)) from error
            raise
        self._living = asyncio.get_running_loop().create_task(self._live(), name=self._birth.path)
        if self._is_killed:
            self.kill()

    async def _begin(self) -> None:
        engine = self._engine = await open_engine(self._spec.engine, self._patience)
        # What a life left behind that nobody could end: the engine was away, or the machine went down.
        for leftover in await engine.labelled(f"{RESUME_LABEL}={self._birth.resume_id}"):
            await engine.remove(leftover)
        self._id = await self._create(engine)
        if self._on_created is not None:
            await self._on_created(engine.socket, engine.removal_request(self._id))
        found = await engine.inspect(self._id)
        self._since = int(found.created.timestamp())
        self._stop_signal = found.config.stop_signal or self._stop_signal
        await engine.start(self._id)
        with suppress(EngineError):
            self.pid = (await engine.inspect(self._id)).state.pid or None

    async def _create(self, engine: Engine) -> str:
        config = configuration(self._spec, self._birth)
        pulled = cleared = False
        while True:
            # It goes on when whoever waits is cancelled: only when it is done is it known what there is to remove.
            self._creating = asyncio.get_running_loop().create_task(engine.create(self._name, config))
            try:
                return await asyncio.shield(self._creating)
            except EngineError as error:
                if error.image_is_missing and not pulled:
                    pulled = True
                    await self._pull(engine)
                elif error.name_is_taken and not cleared:
                    cleared = True
                    await engine.remove(self._name)
                else:
                    raise

    async def _pull(self, engine: Engine) -> None:
        image = self._spec.image
        logger.info("%s: the image %s is not here and is pulled", self._birth.path, image)
        try:
            await engine.pull(image)
        except EngineError as error:
            raise EngineError(f"the image {image} is not here and cannot be pulled: {error}") from error

    async def _undo(self) -> None:
        """Leave nothing of a start that did not succeed."""
        if self._engine is None:
            return
        if self._creating is not None:
            await asyncio.wait([self._creating])
            error = self._creating.exception()
            if not isinstance(error, EngineError) or error.status is None:
                # If nobody knows whether it was made, the engine is not well, and is not given long.
                with suppress(TimeoutError):
                    async with asyncio.timeout(None if error is None else self._patience.quick):
                        await self._remove(self._engine, self._name)
        await self._engine.close()

    # ── its life ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _live(self) -> None:
        """Until nothing is left of it."""
        engine = self._engine
        assert engine is not None
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(self._watch(engine)), loop.create_task(self._follow(engine))]
        exit = await self._over
        if self._is_given_up:
            tasks += self._errands
        for task in tasks:
            task.cancel()
        await asyncio.wait([*tasks, *self._errands])
        try:
            if not self._is_given_up:
                await self._read_rest(engine)
                await self._remove(engine, self._id)
            self._output.close()
            await engine.close()
        finally:
            self.settle(exit)

    async def _watch(self, engine: Engine) -> None:
        try:
            state = await self._until_over(engine)
        except EngineError as error:
            self._give_up(f"it is not known what became of it: {error}")
        except Exception as error:
            logger.exception("%s: its container cannot be watched", self._birth.path)
            self._give_up(f"it is not known what became of it: {error!r}")
        else:
            self._is_over(self._exit(state))

    async def _until_over(self, engine: Engine) -> State | None:
        """How it ended; None if it was removed."""
        dead, died = "", 0
        while True:
            state = await self._look(engine)
            if state is None or state.over:
                return state
            if state.started_at != dead:
                with suppress(EngineError):
                    if (at := await engine.until_death(self._id, self._since, died)) is not None:
                        # Should it run all the same, then somebody has started it again, or it is not noted yet.
                        dead, died = state.started_at, at
                        continue
            await asyncio.sleep(PAUSE)

    async def _look(self, engine: Engine) -> State | None:
        """Its state, however long the engine is away, as long as that is not too long; None if it is not there."""
        loop = asyncio.get_running_loop()
        lost_at: float | None = None
        while True:
            try:
                return (await engine.inspect(self._id)).state
            except EngineError as error:
                if error.status == 404:
                    return None
                if lost_at is None:
                    lost_at = loop.time()
                    logger.warning("%s: %s", self._birth.path, error)
                elif loop.time() - lost_at > self._patience.lost:
                    raise
            await asyncio.sleep(PAUSE)

    def _exit(self, state: State | None) -> Exit:
        if state is None:
            return Exit(at=self._now(), error="its container was removed")
        error = "out of memory" if state.oom_killed else state.error
        return Exit(at=self._now(), code=state.exit_code, error=" ".join(error.split()))

    def _is_over(self, exit: Exit) -> None:
        if not self._over.done():
            self._over.set_result(exit)

    def _give_up(self, why: str) -> None:
        """It may still be there, and can be neither seen nor ended. It is removed before the next life, or by whoever
        has the request for that."""
        if not self._over.done():
            logger.warning("%s: its container %s is left alone: %s", self._birth.path, self._name, why)
            self._is_given_up = True
            self._is_over(Exit(at=self._now(), error=why))

    async def _remove(self, engine: Engine, container: str) -> None:
        try:
            await engine.remove(container)
        except EngineError as error:
            logger.warning("%s: its container %s could not be removed: %s", self._birth.path, self._name, error)
        else:
            if self._id and self._on_removed is not None:
                self._on_removed()

    # ── its output ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def _follow(self, engine: Engine) -> None:
        pause, told = PAUSE, False
        while True:
            place = self._place.reached
            try:
                await engine.read_log(self._id, self._place, self._output.take, follow=True)
            except EngineError as error:
                if error.status is not None and not told:
                    told = True
                    logger.warning("%s: its output cannot be read: %s", self._birth.path, error)
            # Either it has ended, which is noticed elsewhere, or the engine went away, or it cannot tell.
            pause = PAUSE if self._place.reached != place else min(pause * 2, LONGEST_PAUSE)
            await asyncio.sleep(pause)

    async def _read_rest(self, engine: Engine) -> None:
        """What it printed last may not have been told yet when its end was."""
        try:
            async with asyncio.timeout(LAST_WORDS):
                await engine.read_log(self._id, self._place, self._output.take, follow=False)
        except EngineError:
            # It was removed with all that it had printed, or what is wrong was said before.
            pass
        except TimeoutError:
            logger.warning("%s: it has printed too much to be read to the end", self._birth.path)

    def _deliver(self, stream: str, line: str) -> None:
        if self._sink is not None:
            self._sink(self._birth.path, stream, line, self._now())

    def _show(self, line: str) -> None:
        if self.on_line is not None:
            self.on_line(line)

    # ── its end ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def stop(self, timeout: float) -> None:
        self._is_asked = True
        if self._living is None:
            self.settle(Exit(at=self._now(), code=0))
            return
        # Not the engine's own way of stopping: it takes whole seconds only, Podman answers to nothing else meanwhile,
        # and refuses it for one that is suspended.
        if timeout > 0 and not self._over.done():
            self._run(self._ask_to_end())
            await asyncio.wait([self._over], timeout=timeout)
        self.kill()
        await asyncio.wait([self.ended])

    def kill(self) -> None:
        self._is_killed = True
        if self._living is not None and not self._over.done():
            self._run(self._end_by_force())

    def _run(self, errand: Coroutine[Any, Any, None]) -> None:
        """In a task that is over before this instance is."""
        task = asyncio.get_running_loop().create_task(errand)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    async def _ask_to_end(self) -> None:
        assert self._engine is not None
        if self._is_paused:
            with suppress(EngineError):
                await self._engine.unpause(self._id)
        await self._signal(self._stop_signal)

    async def _end_by_force(self) -> None:
        try:
            async with asyncio.timeout(self._patience.quick):
                self._forced = (await self._signal("SIGKILL") and self._is_asked) or self._forced
        except TimeoutError:
            self._give_up("the engine did not take the request to kill it")
        await asyncio.wait([self._over], timeout=self._patience.slow)
        self._give_up("it did not end though it was killed")

    async def _signal(self, signal: str) -> bool:
        """Whether the engine has taken it; until then it is asked again, unless the container has ended."""
        assert self._engine is not None
        while not self._over.done():
            with suppress(EngineError):
                await self._engine.signal(self._id, signal)
                return True
            await asyncio.wait([self._over], timeout=PAUSE)
        return False

    @property
    def forced(self) -> bool:
        return self._forced

    # ── suspending ──────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def can_suspend(self) -> bool:
        return True

    async def suspend(self) -> None:
        await self._change("suspended", lambda engine: engine.pause(self._id))
        self._is_paused = True

    async def resume(self) -> None:
        await self._change("resumed", lambda engine: engine.unpause(self._id))
        self._is_paused = False

    async def _change(self, what: str, call: Callable[[Engine], Coroutine[Any, Any, None]]) -> None:
        if self._engine is None or self._over.done():
            raise WrongStatus(f"{self._birth.path}: could not be {what} (it does not run)")
        try:
            await call(self._engine)
        except EngineError as error:
            raise WrongStatus(f"{self._birth.path}: could not be {what} ({error})") from error


def container_name(birth: Birth) -> str:
    """The same for every life of a child, and another for a child that is called the same in another tree."""
    mark = sha256(f"{birth.path}\0{birth.resume_id}".encode()).hexdigest()[:12]
    return f"interlock-{birth.path.replace('/', '-')}-{mark}"


def configuration(spec: Container, birth: Birth) -> dict[str, Any]:
    """What an engine is told to make."""
    env = {name: value for name, value in spec.env.items() if value is not None} | birth.environment()
    exposed: dict[str, Any] = {}
    bindings: dict[str, list[dict[str, str]]] = {}
    for port in spec.ports:
        address, outside, inside, protocol = check_port("ports", port)
        exposed[f"{inside}/{protocol}"] = {}
        bindings.setdefault(f"{inside}/{protocol}", []).append({"HostIp": address, "HostPort": str(outside)})
    host: dict[str, Any] = {
        "Binds": list(spec.volumes),
        "PortBindings": bindings,
        # With an init of the engine's own, signals reach a program that did not expect to be the first process, and
        # what it leaves behind is reaped.
        "Init": True,
        "AutoRemove": False,
        "RestartPolicy": {"Name": "no"},
    }
    if spec.network is not None:
        host["NetworkMode"] = spec.network
    if spec.memory is not None:
        host["Memory"] = spec.memory
    if spec.cpus is not None:
        host["NanoCpus"] = round(spec.cpus * 1e9)
    config: dict[str, Any] = {
        "Image": spec.image,
        "Env": [f"{name}={value}" for name, value in env.items()],
        "Labels": {CHILD_LABEL: birth.path, RESUME_LABEL: birth.resume_id},
        "ExposedPorts": exposed,
        "HostConfig": host,
    }
    if spec.command:
        config["Cmd"] = list(spec.command)
    if spec.cwd is not None:
        config["WorkingDir"] = spec.cwd
    if spec.user is not None:
        config["User"] = spec.user
    return config


async def _through(work: Coroutine[Any, Any, None]) -> bool:
    """Do it to the end whoever cancels; whether somebody did."""
    task = asyncio.get_running_loop().create_task(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            cancelled = True
    task.result()
    return cancelled
