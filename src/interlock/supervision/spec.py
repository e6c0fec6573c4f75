"""A tree as data: what each child is, how it is kept up, how it is known to be well, and how it is stopped."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta

from interlock.model.duration import Duration
from interlock.model.error import BadUse, BadValue
from interlock.model.field import Checked, Part
from interlock.model.field_types import NAME, Command, Environment, Number, Place, Schema, Span, Texts, Whole, Word
from interlock.model.work import FILLED, MEMORY, Folder, FunctionName, Limits
from interlock.supervision import field_checks

if TYPE_CHECKING:
    from interlock.supervision.function import ChildContext
    from interlock.supervision.instance import Birth, Instance

MOST_JITTER = 0.1
NEWEST_RUN = "latest"  # not a name of a service: in `interlock logs latest` it is the newest run
CHILD_NAME = Word(
    f"(?!{NEWEST_RUN}$){NAME}",
    f"a name of letters, digits, '_', '-' and '.', up to 64 long, other than '{NEWEST_RUN}'",
)
CONTAINER_FIELDS = ("image", "command", "volumes", "ports", "network", "user", "memory", "cpus", "engine")
SPAN, POSITIVE_SPAN = Span(), Span(positive=True)


class Strategy(StrEnum):
    ONE_FOR_ONE = "one_for_one"  # restart only the child that ended
    ONE_FOR_ALL = "one_for_all"  # stop the others, and restart all
    REST_FOR_ONE = "rest_for_one"  # stop the children that were started after it, and restart it and them


class Restart(StrEnum):
    ALWAYS = "always"
    ON_FAILURE = "on_failure"
    NEVER = "never"


class OnExhausted(StrEnum):
    STOP_CHILD = "stop_child"  # the child stays down, its siblings go on
    FAIL_SUPERVISOR = "fail_supervisor"  # the supervisor stops everything it has and fails itself


class Backoff(Checked, frozen=True, kw_only=True):
    """How long to wait before a child is restarted: longer each time, until it has lived long enough."""

    where: ClassVar[str] = "backoff"

    initial: Annotated[Duration, Meta(description="First delay; zero restarts at once."), SPAN] = 0.1
    multiplier: Annotated[float, Meta(description="Factor from each delay to the next."), Number(1, 1000)] = 2.0
    max: Annotated[Duration, Meta(description="Longest delay."), SPAN] = 30.0
    jitter: Annotated[float, Meta(description="Share by which a delay is randomly longer."), Number(0, MOST_JITTER)] = (
        MOST_JITTER
    )
    reset_after: Annotated[
        Duration, Meta(description="Lifetime after which the next delay is `initial` again."), SPAN
    ] = 60.0

    def delay(self, restart: int, chance: float) -> float:
        """Return the seconds before restart number `restart` in a row (0 is the first); `chance`, from 0 to 1, places
        it within the jitter."""
        initial, most = float(self.initial), float(self.max)  # type: ignore[arg-type]
        try:
            delay = min(initial * float(self.multiplier) ** restart, most)
        except OverflowError:
            delay = most if initial else 0.0
        return delay * (1 + self.jitter * chance)


class Budget(Checked, frozen=True, kw_only=True):
    """How often a child may be restarted within a time."""

    where: ClassVar[str] = "budget"

    max_restarts: Annotated[int, Meta(description="Restarts within `max_duration`; 0 is no limit."), Whole(0)] = 0
    max_duration: Annotated[Duration, Meta(description="Sliding window."), POSITIVE_SPAN] = 60.0
    on_exhausted: Annotated[
        OnExhausted,
        Meta(description="`stop_child`: the child stays down; `fail_supervisor`: its whole group fails."),
    ] = OnExhausted.STOP_CHILD


URL = Word(expected="a URL like http://127.0.0.1:8000/health", pattern="http://.+", accepts=field_checks.is_url)
ADDRESS = Word(
    expected="an address like 127.0.0.1:5432", pattern=".+:[0-9]+", accepts=field_checks.parse_address
)  # fmt: skip


class Ready(Checked, frozen=True, kw_only=True):
    """How a child that was started is known to be ready: exactly one of http, tcp, log and delay."""

    where: ClassVar[str] = "ready"
    one_of: ClassVar[tuple[str, ...]] = ("http", "tcp", "log", "delay")

    http: Annotated[str | None, Meta(description="URL that answers with 200 to 399."), URL] = None
    tcp: Annotated[str | None, Meta(description="host:port that takes a connection."), ADDRESS] = None
    log: Annotated[
        str | None,
        Meta(description="Text in a line that it prints; `*` stands for anything."),
        # With a line break in it, it would never be found.
        Word(r"(?!\**$)[^\n]+", "text of one line with more in it than '*'"),
    ] = None
    delay: Annotated[Duration | None, Meta(description="Time that it has lived."), SPAN] = None
    timeout: Annotated[Duration, Meta(description="Time after which it is stopped, and has failed."), POSITIVE_SPAN] = (
        30.0
    )

    def check(self) -> None:
        if self.delay is not None and self.delay >= self.timeout:  # type: ignore[operator]
            raise BadValue("ready.timeout", self.timeout, "longer than the delay")


class Alive(Checked, frozen=True, kw_only=True):
    """How a child that is ready is known to be well: exactly one of http and tcp. It is stopped, and has failed, if it
    is not."""

    where: ClassVar[str] = "alive"
    one_of: ClassVar[tuple[str, ...]] = ("http", "tcp")

    http: Annotated[str | None, Meta(description="URL that answers with 200 to 399."), URL] = None
    tcp: Annotated[str | None, Meta(description="host:port that takes a connection."), ADDRESS] = None
    every: Annotated[Duration, Meta(description="Time between two checks."), POSITIVE_SPAN] = 10.0
    timeout: Annotated[Duration, Meta(description="Time for one check."), POSITIVE_SPAN] = 5.0
    failures: Annotated[int, Meta(description="Failed checks in a row after which it is stopped."), Whole(1)] = 3


class Child(Checked, frozen=True, kw_only=True):
    """What every kind of child has."""

    kind: ClassVar[str] = ""

    name: Annotated[str, CHILD_NAME]
    restart: Annotated[Restart, Meta(description="Ends after which it is restarted.")] = Restart.ALWAYS
    backoff: Annotated[Backoff, Meta(description="Delays before restarts.")] = Backoff()
    budget: Annotated[Budget, Meta(description="Limit on restarts.")] = Budget()
    stop_timeout: Annotated[
        Duration, Meta(description="Time to end after TERM, or after the request to; then KILL."), SPAN
    ] = 10.0
    significant: bool = False  # its end, if it is not restarted, ends its supervisor too


class Function(Child, frozen=True, kw_only=True):
    """A coroutine function on the supervisor's own event loop. It must not block it."""

    kind: ClassVar[str] = "function"

    run: "Callable[[ChildContext], Awaitable[Any]] | Callable[[], Awaitable[Any]]"
    announces: bool = False  # it is running once it has called `context.ready()`, and not before
    start_timeout: Annotated[Duration, SPAN] = 30.0
    suspend: Callable[[], Awaitable[Any]] | None = None  # given together with `resume`, it can be suspended
    resume: Callable[[], Awaitable[Any]] | None = None

    def check(self) -> None:
        for name in ("run", "suspend", "resume"):
            value = getattr(self, name)
            if not callable(value) and (value is not None or name == "run"):
                raise BadValue(name, value, "a function")
        if (self.suspend is None) != (self.resume is None):
            raise BadUse("suspend", "needs resume too: give both or neither")


class Probed(Child, frozen=True, kw_only=True):
    """A child that is looked at from outside."""

    ready: Annotated[Ready | None, Meta(description="How it is known to be ready.")] = None
    alive: Annotated[Alive | None, Meta(description="How it is known to be well.")] = None
    env: Annotated[
        Mapping[str, str | None],
        Meta(description="Variables on top of the supervisor's own; null takes one away."),
        Environment(),
    ] = {}


class Process(Probed, frozen=True, kw_only=True):
    """A process in a session and group of its own, which ends with it."""

    kind: ClassVar[str] = "process"

    command: "Sequence[str] | Callable[[Birth], Sequence[str]]"
    """program and arguments, without a shell; or a function that makes them before each start"""
    cwd: Annotated[str | None, Meta(description="Folder it runs in."), Folder()] = None
    limits: Annotated[Limits, Meta(description="Limits on its processes.")] = Limits()
    outlives: bool = False  # lives on when the supervisor is killed, instead of ending with it
    pass_fds: tuple[int, ...] = ()  # descriptors that it gets, under the same numbers
    capture: bool = True  # whether its output is read, line by line; otherwise it goes where the supervisor's goes

    def check(self) -> None:
        if not callable(self.command):
            self.put("command", Command().check(self.command, Place("command")))
        if self.outlives and self.capture:
            raise BadValue("outlives", True, "possible with capture: nobody would read its output")
        self.put("pass_fds", field_checks.check_descriptors("pass_fds", self.pass_fds))


class Volume(Word):
    """`outside:inside`; in a document a path outside that begins with a dot begins at the document's folder."""

    def check(self, value: Any, place: Place) -> str:
        if place.document is not None and isinstance(value, str) and value.startswith("."):
            outside, separator, inside = value.partition(":")
            value = f"{place.document.path(str(place), outside)}{separator}{inside}"
        return super().check(value, place)

    def schema(self) -> Schema:
        return {"type": "string", "pattern": ":/"}


class Container(Probed, frozen=True, kw_only=True):
    """A container of Docker or Podman, made anew for each start."""

    kind: ClassVar[str] = "container"

    image: Annotated[str, Meta(description="Name of the image."), Word(FILLED, "the name of an image")]
    command: Annotated[Sequence[str], Meta(description="Command in place of the image's own."), Command(least=0)] = ()
    volumes: Annotated[
        Sequence[str],
        Meta(description="`host path:path inside`, with `:ro` to only read it."),
        Texts(Volume(field_checks.VOLUME, "a volume like '/srv/data:/data' or '/srv/data:/data:ro'"), make=tuple),
    ] = ()
    ports: Annotated[
        Sequence[str],
        Meta(description="`host port:port inside`; an address before it restricts it to that address."),
        Texts(
            Word(
                field_checks.PORT.pattern,
                "a port like '8080:80', '127.0.0.1:8080:80' or '53:53/udp'",
                accepts=field_checks.parse_port,
            ),
            make=tuple,
        ),
    ] = ()
    network: Annotated[str | None, Meta(description="Network it joins."), Word(FILLED, "the name of a network")] = None
    user: Annotated[str | None, Meta(description="User it runs as."), Word(FILLED, "the name or number of a user")] = (
        None
    )
    memory: Annotated[int | None, Meta(description="Memory, as in `512MiB`, or bytes."), MEMORY] = None
    cpus: Annotated[float | None, Meta(description="Number of processors."), Number(0.01, 10_000)] = None
    engine: Annotated[
        str | None,
        Meta(description="Socket of the engine; default DOCKER_HOST, or where Docker and Podman have theirs."),
        Word(FILLED, "the path or address of a socket"),
    ] = None
    cwd: Annotated[
        str | None, Meta(description="Folder inside it that it runs in."), Word(FILLED, "the path of a folder")
    ] = None


class ServiceRun(Checked, frozen=True, kw_only=True):
    """What a service runs: exactly one of these."""

    where: ClassVar[str] = "run"
    one_of: ClassVar[tuple[str, ...]] = ("process", "function", "container")

    process: Annotated[tuple[str, ...] | None, Meta(description="A program and its arguments."), Command()] = None
    function: Annotated[
        str | None, Meta(description="A function, as `module:name` or `path/to/file.py:name`."), FunctionName()
    ] = None
    container: Annotated[
        dict[str, Any] | None,
        Meta(description="A container: its image, or a mapping."),
        Part(Container, "image", CONTAINER_FIELDS),
    ] = None


class Custom(Child, frozen=True, kw_only=True):
    """Anything else that can be started and stopped: `factory` makes an instance for each start."""

    kind: ClassVar[str] = "custom"

    factory: "Callable[[Birth], Instance]"

    def check(self) -> None:
        if not callable(self.factory):
            raise BadValue("factory", self.factory, "a function")


class Group(Child, frozen=True, kw_only=True):
    """A supervisor with its children, as a child of another."""

    kind: ClassVar[str] = "supervisor"

    strategy: Annotated[
        Strategy, Meta(description="Children that are restarted when one ends: it alone, all, or it and later ones.")
    ] = Strategy.ONE_FOR_ONE
    children: Sequence[Child] = ()
    tolerant: bool = False
    """a child that cannot be started is restarted by its policy, instead of failing the whole start"""
    stop_together: bool = False  # stop all children at the same time, not in reverse order

    def check(self) -> None:
        if not isinstance(self.children, Iterable):
            raise BadValue("children", self.children, "a list of children")
        self.put("children", tuple(self.children))
        for child in self.children:
            if not isinstance(child, Child):
                raise BadValue("children", child, "a child: Process, Function, Container, Group")
