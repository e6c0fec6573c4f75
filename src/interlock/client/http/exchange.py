"""One request and its answer: what a transport sends and returns, when to ask again, and which error to raise.

Operations are coroutines that wait for nothing but a `Transport`. One transport waits on an event loop; the other
blocks, so that its coroutines never suspend (`sync.py`); tests play a third by hand.
"""

import math
import time
from collections.abc import Callable, Mapping
from random import Random
from typing import Literal, Protocol, TypeVar

import msgspec

from interlock.client.http.address import ServerAddress
from interlock.error import ConnectionLost, Forbidden, InterlockError, NotRunning, OutcomeUnknown, rebuild
from interlock.fields import json_form
from interlock.interface.operation import IN_DOUBT

T = TypeVar("T")

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0
LONGEST_RETRY_AFTER = 60.0  # seconds; a client does not wait for a server that asks for a longer pause
PROBLEM = "application/problem+json"
AWAY = frozenset({429, 502, 503, 504})  # statuses of a server, or of a proxy before it, that may answer later
UNKNOWN = frozenset({502, 504})  # statuses of a proxy that does not know the outcome


class HttpRequest(msgspec.Struct, frozen=True):
    """Safe to repeat unless it is marked `once`: it changes nothing, or nothing twice."""

    method: str
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] = {}
    within: float | None = None  # seconds of silence before it fails; None for the client's `timeout`
    alone: bool = False  # a connection beside the pool, for a long answer that must not hold up others
    once: bool = False  # never sent again if it may have taken effect


class Response(msgspec.Struct, frozen=True):
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes


class FailedExchange(msgspec.Struct, frozen=True):
    """No answer, or only a part of one."""

    kind: Literal["unreachable", "denied", "insecure", "lost", "silent", "garbled"]
    cause: Exception


class AnswerStream(Protocol):
    """An answer with status 200 that is read as it arrives."""

    headers: Mapping[str, str]

    async def read(self) -> bytes | FailedExchange:
        """Return the next bytes; none at the end."""

    async def close(self) -> None: ...


class ClientTransport(Protocol):
    async def ask(self, request: HttpRequest) -> Response | FailedExchange: ...

    async def open(self, request: HttpRequest) -> AnswerStream | Response | FailedExchange: ...

    async def pause(self, seconds: float) -> None: ...

    async def close(self) -> None:
        """End everything. Calls that wait in other threads or tasks raise an error."""


class ClientPolicy(msgspec.Struct, frozen=True):
    """A client's address and patience, and its sources of time and chance."""

    address: ServerAddress
    timeout: float = 30.0
    patience: float = 90.0  # seconds of retries while a server that has answered before is away or stopping
    first_contact: float = 2.0  # seconds of retries for a server that has never answered
    connections: int = 8
    random: Random = msgspec.field(default_factory=Random)
    elapsed: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time


def retry_after(value: str | None) -> float:
    """Return the seconds that a Retry-After header asks for; 0 without one, or for a date."""
    try:
        wanted = float(value or 0)
    except ValueError:
        return 0.0
    return max(0.0, wanted) if math.isfinite(wanted) else 0.0


class RetryPatience:
    """How long one call retries: briefly until the server has ever answered, then for as long as a restart takes."""

    def __init__(self, policy: ClientPolicy, until: float = math.inf, endless: bool = False) -> None:
        self._policy = policy
        self._until = until
        self._endless = endless  # no limit once the server has answered: for waits, which take as long as they take
        self.restart()

    def restart(self) -> None:
        """Forget earlier failures, after a success."""
        self._began: float | None = None
        self._pause = FIRST_PAUSE

    def pause(self, answer: Response | FailedExchange, reached: bool) -> float | None:
        """Return the seconds before the next try, doubled each time and spread by half; None to give up."""
        now, policy = self._policy.elapsed(), self._policy
        self._began = now if self._began is None else self._began
        wait = self._pause * policy.random.uniform(0.5, 1.0)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        end = self._began + (policy.patience if reached else policy.first_contact)
        if reached and self._endless:
            end = math.inf
        if isinstance(answer, FailedExchange):
            helps = answer.kind in ("unreachable", "lost", "silent")
        else:
            wanted = retry_after(answer.headers.get("retry-after"))
            helps, wait = answer.status in AWAY and wanted <= LONGEST_RETRY_AFTER, max(wait, wanted)
        return wait if helps and now + wait <= min(end, self._until) else None


class Exchange:
    """Asks one server, again where that is safe and may help, and reads its answers."""

    def __init__(self, policy: ClientPolicy, transport: ClientTransport) -> None:
        self.policy = policy
        self.transport = transport
        self.reached = False  # whether the server has ever answered: only then is an absence taken for a restart

    async def ask(
        self, request: HttpRequest, until: float = math.inf, also: frozenset[int] = frozenset(), endless: bool = False
    ) -> Response:
        """Return the answer, or raise the error that it reports. `also` are statuses of answers besides success."""
        patience = RetryPatience(self.policy, until, endless)
        while True:
            answer = await self.transport.ask(request)
            self.note(answer)
            if isinstance(answer, Response) and answer.status in also and media_type(answer) != PROBLEM:
                return answer
            in_doubt = request.once and self._may_have_happened(request, answer)
            wait = None if in_doubt else patience.pause(answer, self.reached)
            if wait is None:
                return self.checked(request, answer)
            await self.transport.pause(wait)

    async def fetch(self, request: HttpRequest, kind: type[T], until: float = math.inf, endless: bool = False) -> T:
        """Return the answer as the type that it must have."""
        return self.decoded(request, await self.ask(request, until, endless=endless), kind)

    def note(self, answer: Response | FailedExchange) -> None:
        """Remember whether anybody is there: our own answers, and connections that broke, are signs of a server."""
        if isinstance(answer, FailedExchange):
            self.reached |= answer.kind in ("lost", "silent")
        else:
            self.reached |= answer.status not in AWAY or media_type(answer) == PROBLEM

    def checked(self, request: HttpRequest, answer: Response | FailedExchange) -> Response:
        """Return a successful answer, or raise the error that was reported."""
        if isinstance(answer, FailedExchange):
            raise _error_of(request, answer, self.policy.address) from answer.cause
        if 200 <= answer.status < 300:
            return answer
        kind = media_type(answer)
        if kind == PROBLEM:
            problem = self.decoded(request, answer, _ErrorAnswer)
            faults = [] if problem.faults == [problem.detail] else problem.faults
            text, wanted = "\n".join([problem.detail, *faults]), answer.headers.get("retry-after")
            raise rebuild(problem.code, text, retry_after(wanted) or None)
        doubt = IN_DOUBT if request.once and answer.status in UNKNOWN else ""
        raise self.not_ours(request, answer.status, f"an answer that is not ours ({kind or 'of no type'}){doubt}")

    def decoded(self, request: HttpRequest, answer: Response, kind: type[T]) -> T:
        found = media_type(answer)
        if found not in ("application/json", PROBLEM):
            raise self.not_ours(request, answer.status, f"{found or 'something'} instead of JSON")
        try:
            return json_form.decode(answer.body, kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self.not_ours(request, answer.status, f"unexpected content ({error})") from error

    def not_ours(self, request: HttpRequest, status: int, what: str) -> InterlockError:
        return InterlockError(f"{_target(request, self.policy.address)} was answered with status {status} and {what}")

    def _may_have_happened(self, request: HttpRequest, answer: Response | FailedExchange) -> bool:
        """Return whether a server may have acted on the request and its outcome is unknown."""
        if isinstance(answer, FailedExchange):
            return answer.kind in ("lost", "silent")
        if answer.status == 503 and media_type(answer) == PROBLEM:
            return self.decoded(request, answer, _ErrorAnswer).code in (ConnectionLost.code, OutcomeUnknown.code)
        return answer.status in UNKNOWN


class _ErrorAnswer(msgspec.Struct):
    code: str
    detail: str
    faults: list[str] = []


def media_type(answer: Response | AnswerStream) -> str:
    return answer.headers.get("content-type", "").partition(";")[0].strip().lower()


def _error_of(request: HttpRequest, failure: FailedExchange, address: ServerAddress) -> InterlockError:
    target = _target(request, address)
    doubt = IN_DOUBT if request.once else ""
    match failure.kind:
        case "unreachable":
            return NotRunning(address.shown)
        case "denied":
            why = _one_line(failure.cause)
            return Forbidden(f"{address.shown} cannot be opened ({why}): it belongs to another user")
        case "insecure":
            return InterlockError(f"{address.shown}: no secure connection ({_one_line(failure.cause)})")
        case "silent":
            text = f"{target} was not answered in time; the server may be overloaded{doubt}"
            return rebuild(ConnectionLost.code, text)
        case "lost":
            return rebuild(ConnectionLost.code, f"{target}: the connection broke before the whole answer came{doubt}")
        case "garbled":
            return InterlockError(f"{target} was answered with something that is not HTTP; is this the right address?")


def _target(request: HttpRequest, address: ServerAddress) -> str:
    return f"{request.method} {address.shown}{request.path.partition('?')[0]}"


def _one_line(error: Exception) -> str:
    return " ".join(str(getattr(error, "strerror", None) or error).split()) or type(error).__name__


def closed() -> InterlockError:
    return InterlockError("client: it is closed; make a new one")
