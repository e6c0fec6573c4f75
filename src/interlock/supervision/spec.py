"""A tree as data: what each child is, how it is kept up, how it is known to be well, and how it is stopped."""

import math
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import msgspec

from interlock.model.duration import Duration, seconds
from interlock.model.error import BadDuration, BadValue
from interlock.supervision import field_checks

if TYPE_CHECKING:
    from interlock.supervision.function import ChildContext
    from interlock.supervision.instance import Birth, Instance

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
MOST_JITTER = 0.1
E = TypeVar("E", bound=StrEnum)


class Strategy(StrEnum):
    ONE_FOR_ONE = "one_for_one"
    """restart only the child that ended"""
    ONE_FOR_ALL = "one_for_all"
    """stop the others, and restart all"""
    REST_FOR_ONE = "rest_for_one"
    """stop the children that were started after it, and restart it and them"""


class Restart(StrEnum):
    ALWAYS = "always"
    ON_FAILURE = "on_failure"
    NEVER = "never"


class OnExhausted(StrEnum):
    STOP_CHILD = "stop_child"
    """the child stays down, its siblings go on"""
    FAIL_SUPERVISOR = "fail_supervisor"
    """the supervisor stops everything it has and fails itself"""


class _Checked(msgspec.Struct, frozen=True, kw_only=True):
    """Fields that are durations may be given as people write them and are seconds afterwards."""

    where: ClassVar[str] = ""

    def field(self, name: str) -> str:
        return f"{self.where}.{name}" if self.where else name

    def check_durations(self, *names: str, positive: bool = False) -> None:
        for name in names:
            given = getattr(self, name)
            self.put(name, seconds(given, self.field(name)))
            if positive and getattr(self, name) == 0:
                raise BadDuration(self.field(name), given, "longer than zero")

    def check_number(self, name: str, least: float, most: float, expected: str) -> None:
        value = getattr(self, name)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not least <= value <= most:
            raise BadValue(self.field(name), value, expected)

    def check_whole(self, name: str, least: int, expected: str) -> None:
        value = getattr(self, name)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 2**60:
            raise BadValue(self.field(name), value, expected)

    def check_choice(self, name: str, kind: type[E]) -> None:
        try:
            self.put(name, kind(getattr(self, name)))
        except (ValueError, TypeError):
            choices = ", ".join(kind)
            raise BadValue(self.field(name), getattr(self, name), f"one of {choices}") from None

    def check_flags(self, *names: str) -> None:
        for name in names:
            if not isinstance(getattr(self, name), bool):
                raise BadValue(self.field(name), getattr(self, name), "true or false")

    def check_part(self, name: str, kind: type) -> None:
        if not isinstance(getattr(self, name), kind):
            raise BadValue(self.field(name), getattr(self, name), f"a {kind.__name__}")

    def put(self, name: str, value: object) -> None:
        msgspec.structs.force_setattr(self, name, value)


class Backoff(_Checked, frozen=True, kw_only=True):
    """How long to wait before a child is restarted: longer each time, until it has lived long enough."""

    where: ClassVar[str] = "backoff"

    initial: Duration = 0.1
    """zero means at once"""
    multiplier: float = 2.0
    max: Duration = 30.0
    jitter: float = MOST_JITTER
    """added by chance, up to this share"""
    reset_after: Duration = 60.0
    """a child that ran longer begins again at `initial`"""

    def __post_init__(self) -> None:
        self.check_durations("initial", "max", "reset_after")
        self.check_number("multiplier", 1, 1000, "a number from 1 to 1000")
        self.check_number("jitter", 0, MOST_JITTER, f"a number from 0 to {MOST_JITTER}")

    def delay(self, restart: int, chance: float) -> float:
        """Return the seconds before restart number `restart` in a row (0 is the first); `chance`, from 0 to 1, places
        it within the jitter."""
        initial, most = float(self.initial), float(self.max)  # type: ignore[arg-type]
        try:
            delay = min(initial * float(self.multiplier) ** restart, most)
        except OverflowError:
            delay = most if initial else 0.0
        return delay * (1 + self.jitter * chance)


class Budget(_Checked, frozen=True, kw_only=True):
    """How often a child may be restarted within a time."""

    where: ClassVar[str] = "budget"

    max_restarts: int = 0
    """0 is no limit"""
    max_duration: Duration = 60.0
    on_exhausted: OnExhausted = OnExhausted.STOP_CHILD

    def __post_init__(self) -> None:
        self.check_durations("max_duration", positive=True)
        self.check_whole("max_restarts", 0, "a whole number of zero or more")
        self.check_choice("on_exhausted", OnExhausted)


class _Probe(_Checked, frozen=True, kw_only=True):
    kinds: ClassVar[tuple[str, ...]] = ()

    http: str | None = None
    """a URL that answers with 200 to 399"""
    tcp: str | None = None
    """host:port that takes a connection"""

    def check_kind(self) -> None:
        given = [name for name in self.kinds if getattr(self, name) is not None]
        if len(given) != 1:
            raise BadValue(self.where, given, f"exactly one of {', '.join(self.kinds)}")
        if self.http is not None:
            field_checks.check_url(self.field("http"), self.http)
        if self.tcp is not None:
            field_checks.check_address(self.field("tcp"), self.tcp)


class Ready(_Probe, frozen=True, kw_only=True):
    """How a child that was started is known to be ready: one of these."""

    where: ClassVar[str] = "ready"
    kinds: ClassVar[tuple[str, ...]] = ("http", "tcp", "log", "delay")

    log: str | None = None
    """text in a line that it prints; `*` stands for anything"""
    delay: Duration | None = None
    """time that it has lived"""
    timeout: Duration = 30.0
    """after which it is stopped, and has failed"""

    def __post_init__(self) -> None:
        if self.delay is not None:
            self.check_durations("delay")
        self.check_durations("timeout", positive=True)
        self.check_kind()
        if self.log is not None:
            field_checks.check_part_of_line(self.field("log"), self.log)
        if self.delay is not None and self.delay >= self.timeout:  # type: ignore[operator]
            raise BadValue(self.field("timeout"), self.timeout, "longer than zero and than the delay")


class Alive(_Probe, frozen=True, kw_only=True):
    """How a child that is ready is known to be well: one of these. One that is not is stopped, and has failed."""

    where: ClassVar[str] = "alive"
    kinds: ClassVar[tuple[str, ...]] = ("http", "tcp")

    every: Duration = 10.0
    timeout: Duration = 5.0
    """of one look"""
    failures: int = 3
    """looks in a row that must fail"""

    def __post_init__(self) -> None:
        self.check_durations("every", "timeout", positive=True)
        self.check_kind()
        self.check_whole("failures", 1, "a whole number of one or more")


class Limits(_Checked, frozen=True, kw_only=True):
    """Limits on a process and on each one that it starts; None is the supervisor's own limit."""

    where: ClassVar[str] = "limits"

    memory: int | None = None
    """bytes of address space"""
    files: int | None = None
    """open files"""
    processes: int | None = None
    """processes of the same user"""
    cpu: Duration | None = None
    """processor time; then the process is killed"""

    def __post_init__(self) -> None:
        for name in ("memory", "files", "processes"):
            if getattr(self, name) is not None:
                self.check_whole(name, 1, "a whole number of one or more")
        if self.cpu is not None:
            self.check_durations("cpu")
            self.check_number("cpu", 1, math.inf, "one second or more")


class Child(_Checked, frozen=True, kw_only=True):
    """What every kind of child has."""

    kind: ClassVar[str] = ""

    name: str
    restart: Restart = Restart.ALWAYS
    backoff: Backoff = Backoff()
    budget: Budget = Budget()
    stop_timeout: Duration = 10.0
    """time to end after the request to; then it is killed"""
    significant: bool = False
    """its end, if it is not restarted, ends its supervisor too"""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            raise BadValue("name", self.name, "a name of letters, digits, '_', '-' and '.', up to 64 long")
        self.check_choice("restart", Restart)
        self.check_part("backoff", Backoff)
        self.check_part("budget", Budget)
        self.check_durations("stop_timeout")
        self.check_flags("significant")


class Function(Child, frozen=True, kw_only=True):
    """A coroutine function on the supervisor's own event loop. It must not block it."""

    kind: ClassVar[str] = "function"

    run: "Callable[[ChildContext], Awaitable[Any]] | Callable[[], Awaitable[Any]]"
    announces: bool = False
    """it is running once it has called `context.ready()`, and not before"""
    start_timeout: Duration = 30.0
    suspend: Callable[[], Awaitable[Any]] | None = None
    """given together with `resume`, it can be suspended"""
    resume: Callable[[], Awaitable[Any]] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_durations("start_timeout")
        self.check_flags("announces")
        for name in ("run", "suspend", "resume"):
            value = getattr(self, name)
            if not callable(value) and (value is not None or name == "run"):
                raise BadValue(name, value, "a function")
        if (self.suspend is None) != (self.resume is None):
            raise BadValue("suspend", self.suspend, "given together with resume")


class Probed(Child, frozen=True, kw_only=True):
    """A child that is looked at from outside."""

    ready: Ready | None = None
    alive: Alive | None = None

    def check_probes(self) -> None:
        for name, kind in (("ready", Ready), ("alive", Alive)):
            if getattr(self, name) is not None:
                self.check_part(name, kind)


class Process(Probed, frozen=True, kw_only=True):
    """A process in a session and group of its own, which ends with it."""

    kind: ClassVar[str] = "process"

    command: "Sequence[str] | Callable[[Birth], Sequence[str]]"
    """program and arguments, without a shell; or a function that makes them before each start"""
    env: Mapping[str, str | None] = {}
    """on top of the supervisor's own; None takes a variable away"""
    cwd: str | None = None
    limits: Limits = Limits()
    outlives: bool = False
    """lives on when the supervisor is killed, instead of ending with it"""
    pass_fds: tuple[int, ...] = ()
    """descriptors that it gets, under the same numbers"""
    capture: bool = True
    """whether its output is read, line by line; otherwise it goes where the supervisor's goes"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.command):
            self.put("command", field_checks.check_command("command", self.command))
        self.put("env", field_checks.check_env("env", self.env))
        if self.cwd is not None:
            field_checks.check_text("cwd", self.cwd, "the path of a folder")
        self.check_part("limits", Limits)
        self.check_probes()
        self.check_flags("outlives", "capture")
        if self.outlives and self.capture:
            raise BadValue("outlives", True, "possible with capture: nobody would read what it prints then")
        self.put("pass_fds", field_checks.check_descriptors("pass_fds", self.pass_fds))


TEXTS = {
    "cwd": "the path of a folder",
    "network": "the name of a network",
    "user": "the name or number of a user",
    "engine": "the path or address of a socket",
}
"""fields of a container that are texts, or not given"""


class Container(Probed, frozen=True, kw_only=True):
    """A container of Docker or Podman, made anew for each start."""

    kind: ClassVar[str] = "container"

    image: str
    command: Sequence[str] = ()
    """in place of the image's own"""
    env: Mapping[str, str | None] = {}
    cwd: str | None = None
    volumes: Sequence[str] = ()
    """host path:path inside, with `:ro` behind if it is only read"""
    ports: Sequence[str] = ()
    """host port:port inside; an address before it restricts it to that address"""
    network: str | None = None
    user: str | None = None
    memory: int | None = None
    """bytes"""
    cpus: float | None = None
    engine: str | None = None
    """the engine's socket; by default DOCKER_HOST, or where Docker and Podman have theirs"""

    def __post_init__(self) -> None:
        super().__post_init__()
        field_checks.check_text("image", self.image, "the name of an image")
        self.put("command", () if self.command in ([], ()) else field_checks.check_command("command", self.command))
        self.put("env", field_checks.check_env("env", self.env))
        for name, expected in TEXTS.items():
            if getattr(self, name) is not None:
                field_checks.check_text(name, getattr(self, name), expected)
        for name, check in (("volumes", field_checks.check_volume), ("ports", field_checks.check_port)):
            self.put(name, field_checks.check_texts(name, getattr(self, name)))
            for text in getattr(self, name):
                check(name, text)
        if self.memory is not None:
            self.check_whole("memory", 1, "a whole number of bytes")
        if self.cpus is not None:
            self.check_number("cpus", 0.01, 10_000, "a number of processors")
        self.check_probes()


class Custom(Child, frozen=True, kw_only=True):
    """Anything else that can be started and stopped: `factory` makes an instance for each start."""

    kind: ClassVar[str] = "custom"

    factory: "Callable[[Birth], Instance]"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.factory):
            raise BadValue("factory", self.factory, "a function")


class Group(Child, frozen=True, kw_only=True):
    """A supervisor with its children, as a child of another."""

    kind: ClassVar[str] = "supervisor"

    strategy: Strategy = Strategy.ONE_FOR_ONE
    children: Sequence[Child] = ()
    tolerant: bool = False
    """a child that cannot be started is restarted by its policy, instead of failing the whole start"""
    stop_together: bool = False
    """stop all children at the same time, not in reverse order"""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_choice("strategy", Strategy)
        self.check_flags("tolerant", "stop_together")
        if not isinstance(self.children, Iterable):
            raise BadValue("children", self.children, "a list of children")
        self.put("children", tuple(self.children))
        for child in self.children:
            if not isinstance(child, Child):
                raise BadValue("children", child, "a child: Process, Function, Container, Group")
