"""Docker and Podman, through the HTTP API that both speak on a local socket, and the logs of
containers."""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec

from interlock.error import NoContainerEngine, shown
from interlock.supervision.output import STREAMS

MOST_BYTES = 32 * 2**20  # of one piece


async def read_piece(log: aiohttp.StreamReader | asyncio.StreamReader) -> tuple[int, bytes] | None:
    """Return the next piece of a log with the number of its stream, None at the end. Eight bytes before each piece give
    stream and size; raise `ValueError` if they cannot."""
    try:
        head = await log.readexactly(8)
        size = int.from_bytes(head[4:])
        if head[0] > 3 or any(head[1:4]) or size > MOST_BYTES:
            raise ValueError("the log cannot be read")
        return head[0], await log.readexactly(size)
    except asyncio.IncompleteReadError:
        return None


class LogPlace:
    """The place to resume a log. An engine sends it from a whole second on, and the times of its two streams are not
    quite in order: so it is read again from the second before the latest, and the pieces since then are counted."""

    def __init__(self) -> None:
        self.since = 0  # the second from which to read
        self._latest = 0
        self._seen: dict[int, int] = {}  # pieces of each second since then
        self._again = 0
        self._last = (b"", 0)

    @property
    def reached(self) -> tuple[int, int]:
        """A value that changes whenever more was read."""
        return self._latest, sum(self._seen.values())

    def rewind(self) -> None:
        """Expect the log again from `since` on."""
        self._again = sum(self._seen.values())

    def content_of(self, data: bytes) -> bytes | None:
        """Return what was printed, without the time before it; None if it was seen before."""
        time, _, content = data.partition(b" ")
        second = self._second_of(time)
        if self._again and second >= self.since:
            self._again -= 1
            return None
        if second > self._latest:
            self._latest, self.since = second, second - 1
            self._seen = {one: count for one, count in self._seen.items() if one >= self.since}
        if second >= self.since:
            self._seen[second] = self._seen.get(second, 0) + 1
        return content

    def _second_of(self, time: bytes) -> int:
        # Many lines in a row share it, and parsing it takes longer than all the rest.
        start = time[:19]
        if start != self._last[0]:
            self._last = (start, int(datetime.fromisoformat(time.decode("ascii")).timestamp()))
        return self._last[1]


T = TypeVar("T")

NEWEST = (1, 44)  # the version of the API to speak, unless the engine speaks only an older one
PAUSE = 0.25  # seconds before the next try
MOST_WORDS = 400  # characters to pass on of an engine's message
LONGEST_PATH = 107  # bytes of a socket's path; uvloop would cut a longer one
OVER = frozenset({"exited", "stopped", "dead", "removing"})  # statuses of a container that has ended

Deliver = Callable[[str, bytes], Awaitable[None]]
"""takes "stdout" or "stderr" and the next piece, before it waits for anything"""


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds to wait for an engine."""

    quick: float = 10.0  # for an answer that costs it nothing
    slow: float = 60.0  # for an answer when it copies or removes files
    lost: float = 60.0  # for its return, if it went away while a container runs


PATIENCE = Patience()


class EngineError(Exception):
    """A request to the engine failed; the message is one line."""

    def __init__(self, why: str, *, status: int | None = None, absent: str = "") -> None:
        super().__init__(why)
        self.status = status  # of its answer; None if there was no answer
        self.absent = absent  # why the connection was refused, if it was

    @property
    def image_is_missing(self) -> bool:
        return self.status == 404 and "image" in str(self).lower()

    @property
    def name_is_taken(self) -> bool:
        # Podman has no status of its own for it.
        return self.status == 409 or (self.status == 500 and "already in use" in str(self))


class ContainerState(msgspec.Struct, frozen=True, rename="pascal"):
    status: str
    exit_code: int = 0
    oom_killed: bool = msgspec.field(name="OOMKilled", default=False)
    error: str = ""
    pid: int = 0


class Config(msgspec.Struct, frozen=True, rename="pascal"):
    stop_signal: str | None = None


class Inspected(msgspec.Struct, frozen=True, rename="pascal"):
    state: ContainerState
    config: Config


class _Identified(msgspec.Struct, frozen=True, rename="pascal"):
    id: str


class _Complaint(msgspec.Struct, frozen=True):
    message: str = ""


class _Progress(msgspec.Struct, frozen=True):
    """A line of the progress of a pull."""

    error: str = ""
    status: str = ""
    id: str = ""  # of a layer, in some lines


LAYER_STATUSES = dict.fromkeys(("Pulling fs layer", "Waiting", "Downloading"), False) | dict.fromkeys(
    ("Download complete", "Pull complete", "Already exists"), True
)
"""status of a layer → whether the layer is there"""


def sockets(given: str | None, environ: Mapping[str, str]) -> list[str]:
    """Return the places to look for an engine, in order."""
    if given is not None:
        return [_path("engine", given)]
    if environ.get("DOCKER_HOST"):
        return [_path("DOCKER_HOST", environ["DOCKER_HOST"])]
    found = ["/var/run/docker.sock", "/run/podman/podman.sock"]
    if environ.get("XDG_RUNTIME_DIR"):
        found.append(os.path.join(environ["XDG_RUNTIME_DIR"], "podman/podman.sock"))
    return found


def _path(field: str, value: str) -> str:
    path = value.removeprefix("unix://")
    if not path.startswith("/") or "\0" in path or len(os.fsencode(path)) > LONGEST_PATH:
        raise NoContainerEngine(f"{field}: {shown(value)} is not a Unix socket like unix:///var/run/docker.sock")
    return path


async def open_engine(given: str | None, patience: Patience, environ: Mapping[str, str] = os.environ) -> "EngineApi":
    """Return the first engine that answers. Raise `NoContainerEngine` if none does, `EngineError` if it is faulty."""
    reasons: list[str] = []
    for path in sockets(given, environ):
        engine = EngineApi(path, patience)
        try:
            await engine.greet()
        except BaseException as error:
            await engine.close()
            if not isinstance(error, EngineError) or not error.absent:
                raise
            reasons.append(f"{path} ({error.absent})")
        else:
            return engine
    raise NoContainerEngine(
        f"engine: no Docker or Podman answers at {', '.join(reasons)}; "
        "start one, or name its socket with 'engine' or DOCKER_HOST=unix:///path"
    )


class EngineApi:
    """Belongs to the event loop that made it. Every call raises `EngineError` if it does not succeed."""

    def __init__(self, socket: str, patience: Patience) -> None:
        self.socket = socket
        self._patience = patience
        self._version = ""
        self._session = aiohttp.ClientSession(
            # A connection for each request: one that is kept may have ended by its next use.
            connector=aiohttp.UnixConnector(socket, limit=0, force_close=True),
            timeout=aiohttp.ClientTimeout(total=None),
            headers={"User-Agent": "interlock"},
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def close(self) -> None:
        await self._session.close()

    async def greet(self) -> None:
        """Check that an engine answers, and choose the version of the API."""
        async with self._open("GET", "/_ping", {}, self._patience.quick) as response:
            match = re.fullmatch(r"(\d{1,4})\.(\d{1,4})", response.headers.get("Api-Version", ""))
        if match is None:
            raise EngineError(f"the server at {self.socket} is not Docker or Podman")
        major, minor = min((int(match[1]), int(match[2])), NEWEST)
        self._version = f"/v{major}.{minor}"

    async def create(self, name: str, config: Mapping[str, Any]) -> str:
        """Return the id of the new container."""
        answer = await self._ask("POST", "/containers/create", {"name": name}, self._patience.slow, config)
        return self._read(answer, _Identified).id

    async def pull(self, image: str, credentials: str | None, note: Callable[[str], None]) -> None:
        """Pull an image, with the credentials of its registry. `note` gets how far it is whenever that changes."""
        name, tag = split_image(image)
        query = {"fromImage": name} if tag is None else {"fromImage": name, "tag": tag}
        headers = {} if credentials is None else {"X-Registry-Auth": credentials}
        layers: dict[str, bool] = {}
        said = ""
        async with self._open("POST", "/images/create", query, None, headers=headers) as response:
            while line := await response.content.readline():
                if not line.strip():
                    continue
                progress = self._read(line, _Progress)
                if progress.error:
                    raise EngineError(_one_line(progress.error))
                if progress.id and progress.status in LAYER_STATUSES:
                    layers[progress.id] = LAYER_STATUSES[progress.status] or layers.get(progress.id, False)
                if layers and (how_far := f"{sum(layers.values())} of {len(layers)} layers") != said:
                    note(said := how_far)

    async def inspect(self, container: str) -> Inspected:
        return self._read(await self._ask("GET", f"/containers/{quote(container)}/json"), Inspected)

    async def start(self, container: str) -> None:
        await self._ask("POST", f"/containers/{quote(container)}/start", within=self._patience.slow)

    async def put_files(self, container: str, archive: bytes) -> None:
        """Unpack a tar archive in the root folder of a container, running or not."""
        path = f"/containers/{quote(container)}/archive"
        headers = {"Content-Type": "application/x-tar"}
        async with self._open("PUT", path, {"path": "/"}, self._patience.slow, archive, True, headers):
            pass

    async def get_file(self, container: str, path: str, limit: int) -> bytes | None:
        """Return the beginning of a tar archive of one file in a container, at most `limit` bytes; None without one."""
        url, found = f"/containers/{quote(container)}/archive", bytearray()
        try:
            async with self._open("GET", url, {"path": path}, self._patience.slow, whole=True) as response:
                while len(found) < limit and (piece := await response.content.read(limit - len(found))):
                    found += piece
        except EngineError as error:
            if error.status == 404:
                return None
            raise
        return bytes(found)

    async def change(self, container: str, action: str, **query: str) -> None:
        """Do one of kill, pause and unpause."""
        await self._ask("POST", f"/containers/{quote(container)}/{action}", query)

    async def labelled(self, label: str) -> list[str]:
        """Return the ids of all containers with a label, whatever their state."""
        filters = msgspec.json.encode({"label": [label]}).decode()
        answer = await self._ask("GET", "/containers/json", {"all": "1", "filters": filters})
        return [container.id for container in self._read(answer, list[_Identified])]

    async def remove(self, container: str) -> None:
        """Remove a container, killing it if necessary, and wait until nothing is left of it. It need not exist."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._patience.quick
        while True:
            try:
                await self._ask("DELETE", removal(container), within=self._patience.slow)
                return
            except EngineError as error:
                if error.status == 404:
                    return
                # These statuses also mean that it is just ending, or that another client is removing it.
                if error.status not in (409, 500) or loop.time() > end:
                    raise
            await asyncio.sleep(PAUSE)

    def removal_request(self, container: str) -> bytes:
        """Return a whole request that removes it, for a sender that knows only the socket."""
        lines = (f"DELETE {self._version}{removal(container)} HTTP/1.1", "Host: localhost", "Connection: close", "", "")
        return "\r\n".join(lines).encode()

    async def read_log(self, container: str, place: LogPlace, deliver: Deliver, *, follow: bool) -> None:
        """Deliver what was printed after `place`, which moves along; with `follow`, until the container ends."""
        query = dict.fromkeys(("stdout", "stderr", "timestamps"), "1")
        query |= {"since": str(place.since), "follow": str(int(follow))}
        async with self._open("GET", f"/containers/{quote(container)}/logs", query, None) as response:
            place.rewind()
            while (piece := await read_piece(response.content)) is not None:
                stream = STREAMS.get(piece[0])
                if stream is not None and (content := place.content_of(piece[1])) is not None:
                    await deliver(stream, content)

    async def _ask(
        self, method: str, path: str, query: Mapping[str, str] = {}, within: float | None = None, body: Any = None
    ) -> bytes:
        within = self._patience.quick if within is None else within
        async with self._open(method, path, query, within, body, whole=True) as response:
            return await response.read()

    @asynccontextmanager
    async def _open(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        within: float | None,
        body: Any = None,
        whole: bool = False,
        headers: Mapping[str, str] = {},
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yield the answer once it has begun. `within` limits the wait for that, or with `whole` for all of it."""
        url = f"http://localhost{self._version}{path}"
        sent = {"data" if isinstance(body, bytes) else "json": body}
        asking = self._session.request(method, url, params=query, headers=headers, allow_redirects=False, **sent)
        try:
            async with asyncio.timeout(within) as clock, asking as response:
                if response.status >= 300 and response.status != 304:
                    raise self._refusal(await response.read(), response.status)
                if not whole:
                    clock.reschedule(None)
                yield response
        except TimeoutError:
            raise EngineError(f"the engine at {self.socket} did not answer within {within:g}s") from None
        except aiohttp.ClientConnectorError as error:
            why = error.os_error.strerror or str(error.os_error)
            raise EngineError(f"the engine at {self.socket} cannot be reached: {why}", absent=why) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise EngineError(f"the engine at {self.socket} broke off: {_one_line(str(error))}") from None

    def _refusal(self, answer: bytes, status: int) -> EngineError:
        try:
            why = msgspec.json.decode(answer, type=_Complaint).message
        except msgspec.MsgspecError:
            why = answer.decode(errors="replace")
        return EngineError(_one_line(why) or f"the engine at {self.socket} answered {status}", status=status)

    def _read(self, answer: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(answer, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise EngineError(f"the engine at {self.socket} sent an answer that cannot be read") from None


def removal(container: str) -> str:
    return f"/containers/{quote(container)}?force=1&v=1"


def split_image(image: str) -> tuple[str, str | None]:
    """Return name and tag: "latest" for a name without tag and digest, or the engine would pull all tags."""
    if "@" in image:
        return image, None
    name, colon, tag = image.rpartition(":")
    return (name, tag) if colon and "/" not in tag else (image, "latest")


def _one_line(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MOST_WORDS else f"{text[:MOST_WORDS]}…"
