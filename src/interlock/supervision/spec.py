"""A tree as data: each child with its restarts, its probes and its stop."""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar
from urllib.parse import urlsplit

from interlock.error import BadUse, BadValue
from interlock.fields import field_types as kinds
from interlock.fields.duration import Duration, checked
from interlock.fields.environment import Environment
from interlock.fields.field import Checked, Nested, doc
from interlock.model.work import CPUS, FILLED, MEMORY, NETWORK, USER, VOLUME, Folder, FunctionName, Limits

if TYPE_CHECKING:
    from interlock.supervision.function import ChildContext
    from interlock.supervision.instance import Birth, Instance

MOST_JITTER = 0.1
NEWEST_RUN = "latest"  # in `interlock logs latest` the newest run, and so not the name of a service
CHILD_NAME = kinds.Word(
    f"(?!{NEWEST_RUN}$){kinds.NAME}",
    f"a name of letters, digits, '_', '-' and '.', up to 64 long, other than '{NEWEST_RUN}'",
)
CONTAINER_FIELDS = ("image", "command", "volumes", "ports", "network", "user", "memory", "cpus", "processes", "engine")
SPAN = kinds.Span()
ADDRESS_FORM = re.compile(r"(?:\[([0-9A-Fa-f:.]+(?:%\w+)?)\]|([\w.-]+)):([0-9]{1,5})", re.ASCII)
PORT_FORM = re.compile(r"(?:([0-9.]+|\[[0-9A-Fa-f:.]+\]):)?([0-9]{1,5}):([0-9]{1,5})(?:/(tcp|udp))?")
MOST_DESCRIPTORS = 200  # fewer than the system passes between processes at once


def _descriptors(field: str, numbers: object) -> tuple[int, ...]:
    if isinstance(numbers, (str, bytes)) or not isinstance(numbers, Sequence) or len(numbers) > MOST_DESCRIPTORS:
        raise BadValue(field, numbers, f"a list of up to {MOST_DESCRIPTORS} descriptors")
    for number in numbers:
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            raise BadValue(field, number, "a descriptor")
    return tuple(numbers)


def parse_port(port: str) -> tuple[str, int, int, str] | None:
    """Return outer address (empty for all), outer port, inner port and protocol; None if it is not a port."""
    match = PORT_FORM.fullmatch(port)
    if match is None or not 0 < int(match[2]) < 65536 or not 0 < int(match[3]) < 65536:
        return None
    return (match[1] or "").strip("[]"), int(match[2]), int(match[3]), match[4] or "tcp"


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        good = parts.scheme == "http" and bool(parts.hostname) and parts.port != 0 and text.isascii()
    except ValueError:
        return False
    return good and not any(ord(letter) <= 32 or ord(letter) == 127 for letter in text)


def parse_address(address: str) -> tuple[str, int] | None:
    """Return host and port, None if it is not an address; brackets enclose an IPv6 address."""
    match = ADDRESS_FORM.fullmatch(address)
    if match is None or not 0 < int(match[3]) < 65536:
        return None
    return match[1] or match[2], int(match[3])


class Strategy(StrEnum):
    ONE_FOR_ONE = "one_for_one"  # restart only the child that ended
    ONE_FOR_ALL = "one_for_all"  # stop the others, and restart all
    REST_FOR_ONE = "rest_for_one"  # stop the children that were started after it, and restart it and them


class Restart(StrEnum):
    ALWAYS = "always"
    ON_FAILURE = "on_failure"
    NEVER = "never"


class OnExhausted(StrEnum):
    STOP_CHILD = "stop_child"  # leave the child down; its siblings go on
    FAIL_SUPERVISOR = "fail_supervisor"  # stop all children of the supervisor, which fails


class Backoff(Checked, frozen=True, kw_only=True):
    """Delays before the restarts of a child: longer each time, until it has lived long enough."""

    where: ClassVar[str] = "backoff"

    initial: Annotated[Duration, doc("First delay; zero restarts at once."), SPAN] = 0.1
    multiplier: Annotated[float, doc("Factor from each delay to the next."), kinds.Number(1, 1000)] = 2.0
    max: Annotated[Duration, doc("Longest delay."), SPAN] = 30.0
    jitter: Annotated[float, doc("Largest random share added to a delay."), kinds.Number(0, MOST_JITTER)] = MOST_JITTER
    reset_after: Annotated[Duration, doc("Lifetime that resets the delay to `initial`."), SPAN] = 60.0

    def delay(self, restart: int, chance: float) -> float:
        """Return the seconds before restart number `restart` in a row (0 is the first); `chance`, from 0 to 1, places
        it within the jitter."""
        initial, most = checked(self.initial), checked(self.max)
        try:
            delay = min(initial * float(self.multiplier) ** restart, most)
        except OverflowError:
            delay = most if initial else 0.0
        return delay * (1 + self.jitter * chance)


class Budget(Checked, frozen=True, kw_only=True):
    """A limit on the restarts of a child within a time."""

    where: ClassVar[str] = "budget"

    max_restarts: Annotated[int, doc("Restarts within `max_duration`; 0 is no limit."), kinds.Whole(0)] = 0
    max_duration: Annotated[Duration, doc("Sliding window."), kinds.POSITIVE_SPAN] = 60.0
    on_exhausted: Annotated[
        OnExhausted, doc("`stop_child`: the child stays down; `fail_supervisor`: its whole group fails.")
    ] = OnExhausted.STOP_CHILD


URL = kinds.Word(expected="a URL like http://127.0.0.1:8000/health", pattern="http://.+", accepts=_is_url)
ADDRESS = kinds.Word(expected="an address like 127.0.0.1:5432", pattern=".+:[0-9]+", accepts=parse_address)
# A text with a line break would never be found.
LOG_TEXT = kinds.Word(r"(?!\**$)[^\n]+", "text of one line with more in it than '*'")


class Ready(Checked, frozen=True, kw_only=True):
    """The test whether a started child is ready: exactly one of http, tcp, log and delay."""

    where: ClassVar[str] = "ready"
    one_of: ClassVar[tuple[str, ...]] = ("http", "tcp", "log", "delay")

    http: Annotated[str | None, doc("URL that answers with 200 to 399."), URL] = None
    tcp: Annotated[str | None, doc("host:port that takes a connection."), ADDRESS] = None
    log: Annotated[str | None, doc("Text in a printed line; `*` stands for anything."), LOG_TEXT] = None
    delay: Annotated[Duration | None, doc("Time since its start."), SPAN] = None
    timeout: Annotated[Duration, doc("Time until it has failed, and is stopped."), kinds.POSITIVE_SPAN] = 30.0

    def check(self) -> None:
        if self.delay is not None and checked(self.delay) >= checked(self.timeout):
            raise BadValue("ready.timeout", self.timeout, "longer than the delay")


class Alive(Checked, frozen=True, kw_only=True):
    """The test whether a ready child is well: exactly one of http and tcp. A child that fails it is stopped, and has
    failed."""

    where: ClassVar[str] = "alive"
    one_of: ClassVar[tuple[str, ...]] = ("http", "tcp")

    http: Annotated[str | None, doc("URL that answers with 200 to 399."), URL] = None
    tcp: Annotated[str | None, doc("host:port that takes a connection."), ADDRESS] = None
    every: Annotated[Duration, doc("Time between two checks."), kinds.POSITIVE_SPAN] = 10.0
    timeout: Annotated[Duration, doc("Time for one check."), kinds.POSITIVE_SPAN] = 5.0
    failures: Annotated[int, doc("Failed checks in a row that stop it."), kinds.Whole(1)] = 3


class Child(Checked, frozen=True, kw_only=True):
    """The common fields of all kinds of children."""

    kind: ClassVar[str] = ""

    name: Annotated[str, CHILD_NAME]
    restart: Annotated[Restart, doc("Ends that lead to a restart.")] = Restart.ALWAYS
    backoff: Annotated[Backoff, doc("Delays before restarts.")] = Backoff()
    budget: Annotated[Budget, doc("Limit on restarts.")] = Budget()
    stop_timeout: Annotated[Duration, doc("Time from the request to end, or TERM, to KILL."), SPAN] = 10.0
    significant: bool = False  # its end ends its supervisor too, unless it is restarted


class Function(Child, frozen=True, kw_only=True):
    """A coroutine function on the supervisor's own event loop, which it must not block."""

    kind: ClassVar[str] = "function"

    run: "Callable[[ChildContext], Awaitable[Any]] | Callable[[], Awaitable[Any]]"
    announces: bool = False  # it counts as running only once it has called `context.ready()`
    start_timeout: Annotated[Duration, SPAN] = 30.0
    suspend: Callable[[], Awaitable[Any]] | None = None  # makes it suspendable, together with `resume`
    resume: Callable[[], Awaitable[Any]] | None = None

    def check(self) -> None:
        for name in ("run", "suspend", "resume"):
            value = getattr(self, name)
            if not callable(value) and (value is not None or name == "run"):
                raise BadValue(name, value, "a function")
        if (self.suspend is None) != (self.resume is None):
            raise BadUse("suspend", "needs resume too: give both or neither")


class Probed(Child, frozen=True, kw_only=True):
    """A child that is probed from outside."""

    ready: Annotated[Ready | None, doc("Test whether it is ready.")] = None
    alive: Annotated[Alive | None, doc("Test whether it is well.")] = None
    env: Annotated[
        Mapping[str, str | None], doc("Variables to add; null removes an inherited one."), Environment()
    ] = {}


class Process(Probed, frozen=True, kw_only=True):
    """A process in a session and group of its own, which ends with it."""

    kind: ClassVar[str] = "process"

    command: "Sequence[str] | Callable[[Birth], Sequence[str]]"
    """program and arguments, without a shell; or a function that returns them before each start"""
    cwd: Annotated[str | None, doc("Folder it runs in."), Folder()] = None
    limits: Annotated[Limits, doc("Limits on its processes.")] = Limits()
    outlives: bool = False  # lives on when the supervisor is killed
    pass_fds: tuple[int, ...] = ()  # descriptors to pass on, under the same numbers
    capture: bool = True  # read its output line by line, instead of sending it where the supervisor's goes

    def check(self) -> None:
        if not callable(self.command):
            self.put("command", kinds.Command().check(self.command, kinds.FieldPath("command")))
        if self.outlives and self.capture:
            raise BadUse(
                "outlives", "cannot be combined with capture: nobody would read its output; set capture to false"
            )
        self.put("pass_fds", _descriptors("pass_fds", self.pass_fds))


PORT_FORMS = "a port like '8080:80', '127.0.0.1:8080:80' or '53:53/udp'"
PORT = kinds.Word(PORT_FORM.pattern, PORT_FORMS, accepts=parse_port)


class Container(Probed, frozen=True, kw_only=True):
    """A container of Docker or Podman, made anew for each start."""

    kind: ClassVar[str] = "container"

    image: Annotated[str, doc("Name of the image."), kinds.Word(FILLED, "the name of an image")]
    command: Annotated[Sequence[str], doc("Command, in place of the image's own."), kinds.Command(least=0)] = ()
    volumes: Annotated[
        Sequence[str],
        doc("`host path:path inside`; `:ro` after it makes it read-only."),
        kinds.Texts(VOLUME, make=tuple),
    ] = ()
    ports: Annotated[
        Sequence[str], doc("`host port:port inside`; an address before it restricts it."), kinds.Texts(PORT, make=tuple)
    ] = ()
    network: Annotated[str | None, doc("Network it joins."), NETWORK] = None
    user: Annotated[str | None, doc("User it runs as."), USER] = None
    memory: Annotated[int | None, doc("Memory, as in `512MiB`, or bytes."), MEMORY] = None
    cpus: Annotated[float | None, doc("Number of processors."), CPUS] = None
    processes: Annotated[int | None, doc("Most processes in it."), kinds.Whole(1)] = None
    engine: Annotated[
        str | None,
        doc("Socket of the engine; default DOCKER_HOST, or a usual one."),
        kinds.Word(FILLED, "the path or address of a socket"),
    ] = None
    cwd: Annotated[
        str | None, doc("Folder it runs in, inside the container."), kinds.Word(FILLED, "the path of a folder")
    ] = None


class ServiceRun(Checked, frozen=True, kw_only=True):
    """The work of a service: exactly one of these."""

    where: ClassVar[str] = "run"
    one_of: ClassVar[tuple[str, ...]] = ("process", "function", "container")

    process: Annotated[tuple[str, ...] | None, doc("A program and its arguments."), kinds.Command()] = None
    function: Annotated[str | None, doc("A function: `module:name` or `path/to/file.py:name`."), FunctionName()] = None
    container: Annotated[
        dict[str, Any] | None,
        doc("A container: its image, or a mapping."),
        Nested(Container, "image", CONTAINER_FIELDS),
    ] = None


class Custom(Child, frozen=True, kw_only=True):
    """Anything else that can be started and stopped; `factory` returns a new instance for each start."""

    kind: ClassVar[str] = "custom"

    factory: "Callable[[Birth], Instance]"

    def check(self) -> None:
        if not callable(self.factory):
            raise BadValue("factory", self.factory, "a function")


class Group(Child, frozen=True, kw_only=True):
    """A supervisor with its children, as a child of another."""

    kind: ClassVar[str] = "supervisor"

    strategy: Annotated[Strategy, doc("Restarted when one ends: it, all, or it and later ones.")] = Strategy.ONE_FOR_ONE
    children: Sequence[Child] = ()
    tolerant: bool = False
    """restart a child that cannot be started by its policy, instead of failing the whole start"""
    stop_together: bool = False  # stop all children at the same time, not in reverse order

    def check(self) -> None:
        if not isinstance(self.children, Iterable):
            raise BadValue("children", self.children, "a list of children")
        self.put("children", tuple(self.children))
        for child in self.children:
            if not isinstance(child, Child):
                raise BadValue("children", child, "a child: Process, Function, Container, Group")
