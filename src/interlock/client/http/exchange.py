"""One request and its answer: what is asked of a transport, what it gives back, and when to try again.

An operation is a generator that yields steps and is sent what came of each. It does no input or output, so the same one
serves the blocking client, the async one and the tests.
"""

import math
import time
from collections.abc import Callable, Generator, Mapping
from email.utils import parsedate_to_datetime
from random import Random
from typing import Any, Literal, TypeVar

import msgspec

from interlock.client.http.address import Address, read_address
from interlock.model.duration import Duration, seconds
from interlock.model.error import BadDuration, BadValue, ConnectionLost, Forbidden, InterlockError, NotRunning, rebuild

T = TypeVar("T")

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0
LONGEST_RETRY_AFTER = 60.0
"""seconds; a server that wants to be left alone for longer is not waited for"""
PROBLEM = "application/problem+json"
IN_DOUBT = "; it may have been done, or still be under way"
AWAY = frozenset({429, 502, 503, 504})
"""the server does not work now, or whoever stands before it cannot reach it or wants it left alone"""
UNKNOWN = frozenset({502, 504})
"""whoever stands before the server has not heard what came of it"""


class Request(msgspec.Struct, frozen=True):
    """What is asked may be asked twice, unless it says otherwise: it changes nothing, or nothing twice."""

    method: str
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] = {}
    within: float | None = None
    """seconds for which the server may be silent; None for as long as with any request"""
    alone: bool = False
    """the server is to wait, or to go on: this has a connection beside the pool, so that it holds up no other"""
    once: bool = False
    """not to be asked again if it may have happened"""


class Pause(msgspec.Struct, frozen=True):
    seconds: float


class Open(msgspec.Struct, frozen=True):
    """Ask for an answer that is read as it comes; it is closed when the next is opened, or when the operation ends."""

    request: Request


class Read(msgspec.Struct, frozen=True):
    """The next bytes of what was opened; none at its end."""


class Tell(msgspec.Struct, frozen=True):
    """Something for the caller of an operation that goes on."""

    value: Any


RETRIES_AFTER_LOSS = 5
"""more than usual, for a server that was there and is gone: together they last for some seconds"""


class Response(msgspec.Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    """names in lower case"""
    body: bytes


class Failure(msgspec.Struct, frozen=True):
    """There was no answer, or only a part of one."""

    kind: Literal["unreachable", "denied", "insecure", "lost", "silent", "garbled"]
    cause: Exception
    reused: bool = False
    """the connection had been kept from an earlier request, and the server may have closed it meanwhile"""


Step = Request | Pause | Open | Read
Operation = Generator[Step, Any, T]
Iteration = Generator[Step | Tell, Any, None]


class Policy(msgspec.Struct, frozen=True):
    """How patient the client is, and where its time and its dice come from."""

    address: Address
    timeout: float = 30.0
    retries: int = 5
    connections: int = 8
    random: Random = msgspec.field(default_factory=Random)
    elapsed: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time

    def backoff(self, attempt: int) -> float:
        """Seconds before trying again after `attempt` earlier retries: doubled each time, and spread by half."""
        whole = min(FIRST_PAUSE * 2.0 ** min(attempt, 30), LONGEST_PAUSE)
        return whole * self.random.uniform(0.5, 1.0)

    def pause(self, answer: Response | Failure, attempt: int) -> float | None:
        """Seconds before this is asked again, or None if it makes no sense to."""
        if isinstance(answer, Failure):
            return self.backoff(attempt) if answer.kind in ("unreachable", "lost", "silent") else None
        if answer.status not in AWAY:
            return None
        wanted = retry_after(answer.headers.get("retry-after"), self.now())
        if wanted > LONGEST_RETRY_AFTER:
            return None
        return max(self.backoff(attempt), wanted)


def read_policy(url: str | None, timeout: Duration, retries: int, connections: int) -> Policy:
    """What a client was told, checked."""
    limit = seconds(timeout, "timeout")
    if limit == 0:
        raise BadDuration("timeout", timeout, "longer than zero")
    for field, value, least in (("retries", retries, 0), ("connections", connections, 1)):
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise BadValue(field, value, f"a whole number of {least} or more")
    return Policy(read_address(url), limit, retries, connections)


def retry_after(value: str | None, now: float) -> float:
    """Seconds the server asks to be left alone for, given as such or as a date; 0 if it does not say."""
    if value is None:
        return 0.0
    try:
        wanted = float(value)
    except ValueError:
        try:
            wanted = parsedate_to_datetime(value).timestamp() - now
        except (ValueError, OverflowError):
            return 0.0
    return max(0.0, wanted) if math.isfinite(wanted) else 0.0


def exchange(
    request: Request,
    policy: Policy,
    until: float | None = None,
    also: frozenset[int] = frozenset(),
    patient: bool = False,
) -> Operation[Response]:
    """Ask, again if that may help and time is left, until there is an answer; raise what the answer says is wrong.

    `also` are statuses that may be answers too, besides those of success. With `patient`, time alone is the limit.
    """
    retried, stale, most = 0, 0, policy.retries
    while True:
        answer: Response | Failure = yield request
        if isinstance(answer, Response) and answer.status in also and _media_type(answer) != PROBLEM:
            return answer
        if isinstance(answer, Failure) and answer.reused and stale < policy.connections:
            # Found closed when it was taken up again: no sign of trouble, and the next one is fresh at the latest.
            stale += 1
            continue
        if isinstance(answer, Failure) and answer.kind == "lost" and policy.retries:
            # Somebody was there and went away: who is started again needs longer than one that is just slow.
            most = policy.retries + RETRIES_AFTER_LOSS
        if request.once and _may_have_happened(request, answer, policy.address):
            return checked(request, answer, policy.address)
        pause = policy.pause(answer, retried) if patient or retried < most else None
        if pause is None or (until is not None and policy.elapsed() + pause > until):
            return checked(request, answer, policy.address)
        retried += 1
        yield Pause(pause)


def _may_have_happened(request: Request, answer: Response | Failure, address: Address) -> bool:
    """Whether somebody has heard of it, and it is not known what came of it."""
    if isinstance(answer, Failure):
        return answer.kind in ("lost", "silent")
    if answer.status == 503 and _media_type(answer) == PROBLEM:
        return decoded(request, answer, _Problem, address).code == ConnectionLost.code
    return answer.status in UNKNOWN


def checked(request: Request, answer: Response | Failure, address: Address) -> Response:
    """The answer of a request that went well; otherwise the error that was reported."""
    if isinstance(answer, Failure):
        raise _error_of(request, answer, address) from answer.cause
    if 200 <= answer.status < 300:
        return answer
    if _media_type(answer) == PROBLEM:
        problem = decoded(request, answer, _Problem, address)
        text = problem.detail if problem.faults == [problem.detail] else "\n".join([problem.detail, *problem.faults])
        raise rebuild(problem.code, text)
    doubt = IN_DOUBT if request.once and answer.status in UNKNOWN else ""
    raise not_ours(
        request, answer, address, f"an answer that is not ours ({_media_type(answer) or 'of no type'}){doubt}"
    )


class _Problem(msgspec.Struct):
    code: str
    detail: str
    faults: list[str] = []


def decoded(request: Request, answer: Response, kind: type[T], address: Address) -> T:
    """The body, of the type it must have."""
    if _media_type(answer) not in ("application/json", PROBLEM):
        raise not_ours(request, answer, address, f"{_media_type(answer) or 'something'} instead of JSON")
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise not_ours(request, answer, address, f"unexpected content ({error})") from error


def not_ours(request: Request, answer: Response, address: Address, what: str) -> InterlockError:
    return InterlockError(f"{_target(request, address)} was answered with status {answer.status} and {what}")


def _error_of(request: Request, failure: Failure, address: Address) -> InterlockError:
    target = _target(request, address)
    doubt = IN_DOUBT if request.once else ""
    match failure.kind:
        case "unreachable":
            return NotRunning(address.shown)
        case "denied":
            return Forbidden(
                f"{address.shown} cannot be opened ({_one_line(failure.cause)}): it belongs to another user"
            )
        case "insecure":
            return InterlockError(f"{address.shown}: no secure connection ({_one_line(failure.cause)})")
        case "silent":
            text = f"{target} was not answered in time; the server may be overloaded"
            return rebuild(ConnectionLost.code, text + doubt)
        case "lost":
            text = f"{target}: the connection broke before the whole answer was there"
            return rebuild(ConnectionLost.code, text + doubt)
        case "garbled":
            return InterlockError(f"{target} was answered with something that is not HTTP; is this the right address?")


def _target(request: Request, address: Address) -> str:
    return f"{request.method} {address.shown}{request.path.partition('?')[0]}"


def _media_type(answer: Response) -> str:
    return answer.headers.get("content-type", "").partition(";")[0].strip().lower()


def _one_line(error: Exception) -> str:
    return " ".join(str(getattr(error, "strerror", None) or error).split()) or type(error).__name__


def closed() -> InterlockError:
    return InterlockError("client: it was closed; make a new one")
