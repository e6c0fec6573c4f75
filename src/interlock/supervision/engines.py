"""Docker and Podman through the HTTP API that both speak on a local socket: finding one, and what is asked of it."""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import msgspec

from interlock.model.error import NoContainerEngine, shown
from interlock.supervision.container_log import STREAMS, Frames, LogPlace

if TYPE_CHECKING:
    import aiohttp

T = TypeVar("T")

NEWEST = (1, 44)
"""the version of the API that is spoken, unless the engine only speaks an older one"""
PAUSE = 0.25
"""seconds before an engine is asked once more"""
MOST_BYTES = 32 * 2**20
"""of one answer"""
MOST_WORDS = 400
"""characters of an engine's message that are passed on"""
LONGEST_PATH = 107
"""bytes of a socket's path; of a longer one uvloop would take the beginning"""
OVER = frozenset({"exited", "stopped", "dead", "removing"})
ENDINGS = frozenset({"die", "died", "destroy", "remove"})

Deliver = Callable[[Sequence[tuple[str, bytes]]], Awaitable[None]]
"""takes what comes next, each with "stdout" or "stderr"; it must not wait before it has taken it"""


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that an engine is waited for."""

    quick: float = 10.0
    """an answer to a question that costs it nothing"""
    slow: float = 60.0
    """an answer when it has files to copy or to remove"""
    lost: float = 60.0
    """its coming back, when it went away while a container runs"""


PATIENCE = Patience()


class EngineError(Exception):
    """The engine did not do what it was asked for; the message is one line."""

    def __init__(self, why: str, *, status: int | None = None, absent: str = "") -> None:
        super().__init__(why)
        self.status = status
        """of its answer; None if there was no answer"""
        self.absent = absent
        """why there is nothing that takes a connection, if there is not"""

    @property
    def image_is_missing(self) -> bool:
        return self.status == 404 and "image" in str(self).lower()

    @property
    def name_is_taken(self) -> bool:
        # Podman has no status of its own for it.
        return self.status == 409 or (self.status == 500 and "already in use" in str(self))


class State(msgspec.Struct, frozen=True, rename="pascal"):
    status: str
    exit_code: int = 0
    oom_killed: bool = msgspec.field(name="OOMKilled", default=False)
    error: str = ""
    pid: int = 0
    started_at: str = ""

    @property
    def over(self) -> bool:
        return self.status in OVER


class Config(msgspec.Struct, frozen=True, rename="pascal"):
    stop_signal: str | None = None


class Inspected(msgspec.Struct, frozen=True, rename="pascal"):
    created: datetime
    state: State
    config: Config


class _Identified(msgspec.Struct, frozen=True, rename="pascal"):
    id: str


class _Problem(msgspec.Struct, frozen=True):
    message: str


class _Event(msgspec.Struct, frozen=True):
    action: str = msgspec.field(name="Action", default="")
    at: int = msgspec.field(name="timeNano", default=0)


class _Progress(msgspec.Struct, frozen=True):
    error: str = ""


# ── finding one ─────────────────────────────────────────────────────────────────────────────────────────────────────


def sockets(given: str | None, environ: Mapping[str, str]) -> list[str]:
    """Where to look for an engine, in order."""
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


async def open_engine(given: str | None, patience: Patience, environ: Mapping[str, str] = os.environ) -> "Engine":
    """The first that is there. Raises `NoContainerEngine` if none is, and `EngineError` if one is but is not well."""
    reasons: list[str] = []
    for path in sockets(given, environ):
        engine = Engine(path, patience)
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


# ── speaking with it ────────────────────────────────────────────────────────────────────────────────────────────────


class Engine:
    """Belongs to the event loop on which it is made. Every call raises `EngineError` if it does not succeed."""

    def __init__(self, socket: str, patience: Patience) -> None:
        import aiohttp

        self.socket = socket
        self._patience = patience
        self._version = ""
        self._session = aiohttp.ClientSession(
            # A connection for each request: one that was kept may have ended by the time it is used again.
            connector=aiohttp.UnixConnector(socket, limit=0, force_close=True),
            timeout=aiohttp.ClientTimeout(total=None),
            headers={"User-Agent": "interlock"},
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def close(self) -> None:
        await self._session.close()

    async def greet(self) -> None:
        """See that it is there and is an engine, and settle which version of the API is spoken."""
        async with self._open("GET", "/_ping", {}, within=self._patience.quick) as response:
            match = re.fullmatch(r"(\d{1,4})\.(\d{1,4})", response.headers.get("Api-Version", ""))
        if match is None:
            raise EngineError(f"what answers at {self.socket} is not Docker or Podman")
        major, minor = min((int(match[1]), int(match[2])), NEWEST)
        self._version = f"/v{major}.{minor}"

    async def create(self, name: str, config: Mapping[str, Any]) -> str:
        """The id of the new container."""
        answer = await self._ask("POST", "/containers/create", {"name": name}, body=config, within=self._patience.slow)
        return self._read(answer, _Identified).id

    async def pull(self, image: str) -> None:
        name, tag = split_image(image)
        query = {"fromImage": name} if tag is None else {"fromImage": name, "tag": tag}
        async with self._open("POST", "/images/create", query) as response:
            while line := await response.content.readline():
                if line.strip() and (error := self._read(line, _Progress).error):
                    raise EngineError(_one_line(error))

    async def start(self, container: str) -> None:
        await self._ask("POST", f"/containers/{quote(container)}/start", within=self._patience.slow)

    async def inspect(self, container: str) -> Inspected:
        return self._read(await self._ask("GET", f"/containers/{quote(container)}/json"), Inspected)

    async def signal(self, container: str, signal: str) -> None:
        await self._ask("POST", f"/containers/{quote(container)}/kill", {"signal": signal})

    async def pause(self, container: str) -> None:
        await self._ask("POST", f"/containers/{quote(container)}/pause")

    async def unpause(self, container: str) -> None:
        await self._ask("POST", f"/containers/{quote(container)}/unpause")

    async def labelled(self, label: str) -> list[str]:
        """The ids of all containers with a label, whatever their state."""
        query = {"all": "1", "filters": _filters(label=label)}
        answer = await self._ask("GET", "/containers/json", query)
        return [one.id for one in self._read(answer, list[_Identified])]

    async def remove(self, container: str) -> None:
        """Kill it if need be, and wait until nothing is left of it; one that is not there is no error."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._patience.quick
        while True:
            try:
                await self._ask("DELETE", removal(container), within=self._patience.slow)
            except EngineError as error:
                if error.status == 404:
                    return
                # It says so too while somebody else removes it, or while it is just ending.
                if error.status not in (409, 500) or loop.time() > end:
                    raise
            else:
                return
            await asyncio.sleep(PAUSE)

    def removal_request(self, container: str) -> bytes:
        """A whole request that removes it, to be sent by somebody who knows no more than where the socket is."""
        lines = (f"DELETE {self._version}{removal(container)} HTTP/1.1", "Host: localhost", "Connection: close", "", "")
        return "\r\n".join(lines).encode()

    async def until_death(self, container: str, since: int, after: int) -> int | None:
        """Wait until it tells that the container has died, or is removed: its time, by which it can be told apart from
        later ones. Those up to `after` are passed over. None if it stopped telling."""
        # Its `wait` would be the plain way, but Podman spends a whole processor on each one that waits.
        query = {"since": str(since), "filters": _filters(container=container)}
        async with self._open("GET", "/events", query, within=self._patience.quick) as response:
            while line := await response.content.readline():
                event = self._read(line.strip() or b"{}", _Event)
                if event.action in ENDINGS and event.at > after:
                    return event.at
        return None

    async def read_log(self, container: str, place: LogPlace, deliver: Deliver, *, follow: bool) -> None:
        """Deliver what was printed behind `place`, which moves along; with `follow` until the container ends."""
        query = {
            "stdout": "1",
            "stderr": "1",
            "timestamps": "1",
            "since": str(place.since),
            "follow": str(int(follow)),
        }
        path = f"/containers/{quote(container)}/logs"
        async with self._open("GET", path, query) as response:
            frames = Frames()
            place.rewind()
            while chunk := await response.content.readany():
                found = [(stream, place.content_of(data)) for stream, data in frames.feed(chunk) if stream in STREAMS]
                await deliver([(STREAMS[stream], content) for stream, content in found if content is not None])

    # ── requests ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _ask(
        self, method: str, path: str, query: Mapping[str, str] = {}, *, body: Any = None, within: float | None = None
    ) -> bytes:
        within = self._patience.quick if within is None else within
        try:
            async with asyncio.timeout(within), self._open(method, path, query, body) as response:
                return await _all_of(response)
        except TimeoutError:
            raise self._silent(within) from None

    @asynccontextmanager
    async def _open(
        self, method: str, path: str, query: Mapping[str, str], body: Any = None, within: float | None = None
    ) -> "AsyncIterator[aiohttp.ClientResponse]":
        """The answer, once it has begun, for which there may be a limit."""
        import aiohttp

        try:
            async with asyncio.timeout(within):
                response = await self._session.request(
                    method,
                    f"http://localhost{self._version}{path}",
                    params=query,
                    json=body,
                    allow_redirects=False,
                )
            async with response:
                if response.status >= 300 and response.status != 304:
                    raise self._refusal(await _all_of(response), response.status)
                yield response
        except TimeoutError:
            if within is None:
                raise
            raise self._silent(within) from None
        except aiohttp.ClientConnectorError as error:
            why = error.os_error.strerror or str(error.os_error)
            raise EngineError(f"the engine at {self.socket} cannot be reached: {why}", absent=why) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise EngineError(f"the engine at {self.socket} broke off: {_one_line(str(error))}") from None

    def _silent(self, seconds: float) -> EngineError:
        return EngineError(f"the engine at {self.socket} did not answer within {seconds:g}s")

    def _refusal(self, answer: bytes, status: int) -> EngineError:
        try:
            why = msgspec.json.decode(answer, type=_Problem).message
        except msgspec.MsgspecError:
            why = answer.decode(errors="replace")
        return EngineError(_one_line(why) or f"the engine at {self.socket} answered {status}", status=status)

    def _read(self, answer: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(answer, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise EngineError(f"the engine at {self.socket} answered with something that is no answer") from None


async def _all_of(response: "aiohttp.ClientResponse") -> bytes:
    found = bytearray()
    while chunk := await response.content.readany():
        found += chunk
        if len(found) > MOST_BYTES:
            raise ValueError("an answer without end")
    return bytes(found)


def removal(container: str) -> str:
    return f"/containers/{quote(container)}?force=1&v=1"


def split_image(image: str) -> tuple[str, str | None]:
    """Name and tag; one that names neither a tag nor a digest means the latest, and not all that there are."""
    if "@" in image:
        return image, None
    name, colon, tag = image.rpartition(":")
    return (name, tag) if colon and "/" not in tag else (image, "latest")


def _filters(**wanted: str) -> str:
    return msgspec.json.encode({name: [value] for name, value in wanted.items()}).decode()


def _one_line(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MOST_WORDS else f"{text[:MOST_WORDS]}…"
