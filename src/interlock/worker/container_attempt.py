"""An attempt of a container: made on an engine of the worker's machine, followed to its end, and removed.

Payload and result are files inside it, which the engine copies: no folder of the machine is mounted for them. The guard
removes the container if the worker ends before that is done.
"""

import asyncio
import io
import re
import tarfile
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from interlock.error import BadUse, CannotStart, InterlockError
from interlock.fields import payload
from interlock.fields.environment import Environment
from interlock.fields.field_types import FieldPath
from interlock.model.child_info import Exit
from interlock.model.failure import Failure, Outcome
from interlock.model.work import ContainerWork, Pull
from interlock.ports.clock import elapsed
from interlock.supervision.container import ContainerInstance, configuration
from interlock.supervision.engines import PATIENCE, EngineApi, EngineError
from interlock.supervision.instance import Birth, Surroundings
from interlock.supervision.spec import Container
from interlock.wire import message as m
from interlock.worker.context import clean
from interlock.worker.pool import how_ended
from interlock.worker.process_log import ProcessLog, secrets_of
from interlock.worker.work_attempt import (
    PAYLOAD,
    PAYLOADS,
    RESULT,
    WorkAttempt,
    WorkParts,
    allowed,
    checked_result,
    line_of,
    too_long,
    variables_of,
)

FOLDER = "interlock"  # inside the container, in its root
PAYLOAD_FILE, PAYLOADS_FILE, RESULT_FILE = (
    f"/{FOLDER}/{name}" for name in ("payload.json", "payloads.jsonl", "result.json")
)
RUN_LABEL, JOB_LABEL, FENCE_LABEL = "interlock.run", "interlock.job", "interlock.fence"
BETWEEN_WORDS = 1.0  # seconds between two reports of how far an image is pulled
REFUSED = 400  # status of an engine for what it will never do
HEAD = 10_240  # bytes of an archive besides the file in it


class AttemptContainer(ContainerInstance):
    def __init__(
        self,
        spec: Container,
        pull: Pull,
        files: Mapping[str, bytes],
        about: Birth,
        name: str,
        labels: Mapping[str, str],
        around: Surroundings,
        log: ProcessLog,
        say: Callable[[str], None],
    ) -> None:
        super().__init__(spec, about, around, PATIENCE)
        self._pull_when = pull
        self._files = files
        self._name = name
        self._labels = labels
        self._output = log
        self._say = say
        self.result: bytes | EngineError | None = None  # what it has written, as the archive of the engine

    async def _clear(self, engine: EngineApi) -> None:
        """Its name is its own: nothing of it can be there before."""

    def _configuration(self) -> dict[str, Any]:
        return configuration(self._spec, {k: v for k, v in self._spec.env.items() if v is not None}, self._labels)

    async def _create(self, engine: EngineApi) -> str:
        # Its name is known before its id: no moment is left in which a killed worker would leave it behind.
        self._around.guard.remember(self._key, engine.socket, engine.removal_request(self._name))
        if self._pull_when is Pull.ALWAYS:
            await self._pull(engine)
        return await super()._create(engine)

    async def _pull(self, engine: EngineApi) -> None:
        if self._pull_when is Pull.NEVER:
            raise EngineError(f"the image {self._spec.image} is missing, and pull is never", status=REFUSED)
        self._say(f"pulls the image {self._spec.image}")
        await super()._pull(engine)

    def _note_pull(self, how_far: str) -> None:
        self._say(f"pulls the image {self._spec.image}: {how_far}")

    async def _fill(self, engine: EngineApi) -> None:
        await engine.put_files(self._id, archive_of(self._files))

    async def _collect(self, engine: EngineApi) -> None:
        if self._over.result().code != 0:
            return
        try:
            self.result = await engine.get_file(self._id, RESULT_FILE, HEAD + payload.LIMIT)
        except EngineError as error:
            self.result = error


class ContainerAttempt(WorkAttempt):
    what = "container"

    def __init__(self, parts: WorkParts, dispatch: m.Dispatch) -> None:
        assert isinstance(dispatch.work, ContainerWork)
        self._work = dispatch.work
        self._container: AttemptContainer | None = None
        self._said_at = 0.0
        super().__init__(parts, dispatch)

    def _terminate(self) -> None:
        if self._container is not None:
            self._container.ask()

    def kill(self) -> None:
        if self._container is not None:
            self._container.kill()

    async def close(self) -> None:
        self.stop()
        self.kill()
        await asyncio.wait([self._task])

    async def _live(self) -> m.Message:
        if self._is_asked:
            return self._finished(Outcome.CANCELLED)
        if elapsed() > self._dispatch.begin_by:
            return m.Expired(*self._key)
        self._is_starting = True
        self._parts.report(m.Starting(*self._key, "creates its container"))
        try:
            container = self._container = self._make()
            await container.start()
        except CannotStart as error:
            cause = error.__cause__
            if isinstance(cause, EngineError) and cause.status == REFUSED:
                return self._finished(Outcome.FAILED_FATAL, self._redact(clean(error.why)))
            return self._failed(error.why)
        except InterlockError as error:
            return self._failed(str(error))
        self._tell()
        if self._is_asked:
            self._terminate()
        return self._end_of(await container.ended, container)

    def _make(self) -> AttemptContainer:
        dispatch, work, payloads = self._dispatch, self._work, self._dispatch.payloads
        env = Environment().check(work.env, FieldPath("env"))
        self._redact = secrets_of([payload.decode(one) for one in payloads], env, {}, self._parts.is_secret)
        self._log = ProcessLog(dispatch, self._tell, self._redact)
        variables = allowed(env, dispatch.limits) | variables_of(dispatch)
        variables |= {PAYLOAD: PAYLOAD_FILE, RESULT: RESULT_FILE}
        files = {PAYLOAD_FILE: line_of(payloads[-1]), RESULT_FILE: b""}
        if len(payloads) > 1:
            variables[PAYLOADS] = PAYLOADS_FILE
            files[PAYLOADS_FILE] = b"".join(map(line_of, payloads))
        spec = Container(
            name="attempt",
            image=work.image,
            command=work.command,
            env=variables,
            volumes=work.mounts,
            network=work.network,
            user=work.user,
            memory=work.memory,
            cpus=work.cpus,
            processes=work.processes,
            cwd=work.workdir,
        )
        labels = {RUN_LABEL: dispatch.run_id, JOB_LABEL: dispatch.job_id, FENCE_LABEL: str(dispatch.fence)}
        about = Birth(path=f"run {dispatch.run_id}", name="attempt", resume_id=dispatch.run_id)
        around = Surroundings(guard=self._parts.guard)
        return AttemptContainer(spec, work.pull, files, about, name_of(dispatch), labels, around, self._log, self._say)

    def _say(self, reason: str) -> None:
        if (now := elapsed()) >= self._said_at + BETWEEN_WORDS:
            self._said_at = now
            self._parts.report(m.Starting(*self._key, reason))

    def _end_of(self, exit: Exit, container: AttemptContainer) -> m.Message:
        if exit.code is None:
            return m.Lost(*self._key, exit.error)
        how, failure = exit.error or how_ended(exit.code), None
        if container.is_out_of_memory:
            failure = Failure(["OOMKilled"], how)
        result = container.result
        if isinstance(result, EngineError):
            return self._failed(f"its result cannot be read: {result}", 0)
        return self._ended(exit.code, how, lambda: result_of(result, self._redact), failure)


def name_of(dispatch: m.Dispatch) -> str:
    """Return a name that no other attempt has on this engine, whichever scheduler sends it."""
    mark = sha256(f"{dispatch.proof}\0{dispatch.run_id}".encode()).hexdigest()[:12]
    return f"interlock-{re.sub(r'[^A-Za-z0-9_.-]', '-', dispatch.job_id)}-{mark}-{dispatch.fence}"


def archive_of(files: Mapping[str, bytes]) -> bytes:
    """Return a tar archive of files that any user of a container can read and write, in a folder of the same kind."""
    found = io.BytesIO()
    with tarfile.open(fileobj=found, mode="w") as archive:
        folder = tarfile.TarInfo(FOLDER)
        folder.type, folder.mode = tarfile.DIRTYPE, 0o777
        archive.addfile(folder)
        for path, data in files.items():
            file = tarfile.TarInfo(path.lstrip("/"))
            file.size, file.mode = len(data), 0o666
            archive.addfile(file, io.BytesIO(data))
    return found.getvalue()


def result_of(archive: bytes | None, redact: Callable[[str], str]) -> bytes:
    """Return the result in an archive; raise if it cannot be one. A file that is gone is the result null."""
    if archive is None:
        return b"null"
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as found:
            file = found.next()
            if file is None or not file.isreg():
                raise BadUse(RESULT, "the file cannot be read: not a regular file")
            if file.size > payload.LIMIT:
                raise too_long(file.size)
            content = found.extractfile(file)
            assert content is not None
            data = content.read()
    except (tarfile.TarError, OSError, EOFError) as error:
        raise BadUse(RESULT, f"the file cannot be read: {error}") from None
    return checked_result(data, redact)
