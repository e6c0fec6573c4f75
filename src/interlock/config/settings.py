"""The settings, each declared once: its name, type, default, meaning and limits."""

from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import msgspec

from interlock.config.setting_types import (
    Address,
    Choice,
    Kind,
    Lanes,
    Optional,
    Place,
    Size,
    Span,
    Text,
    Texts,
    Truth,
    Whole,
)
from interlock.config.tokens import Token, Tokens
from interlock.model.secret import SECRET_NAMES
from interlock.model.sockets import http_socket, scheduler_socket

PREFIX = "INTERLOCK_"


class Setting(msgspec.Struct, frozen=True):
    """What is known of one setting besides its type and default."""

    help: str
    kind: Kind
    flag: str = ""
    """if it is not simply its name"""
    secret: bool = False
    in_environment: bool = True


FILE_LIKE = Text(r"[^\x00\n]+", "the path of a file", "FILE")
PATH = Text(r"[^\x00\n]+", "the path of a file or a folder", "PATH")
APP = Text(r"[^\x00\n]+", "module:variable", "MODULE:VARIABLE")
HOST = Text(r"[^\s/@]+", "a host name")
URL = Text(
    r"unix:[^\x00\n]+|[^@?#\s]+",
    "of the form http://host:port or unix:/path, without user, password and query",
    "URL",
    hidden=True,
)
ORIGIN = Text(r"https?://[^\s/@]+", "an origin like https://example.org, without a path")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What one scheduler needs to know."""

    app: Annotated[str | None, Setting("Where the app is defined.", Optional(APP))] = None
    files: Annotated[list[str], Setting("Files and folders with jobs and services.", Texts(PATH), flag="PATH")] = []
    strict: Annotated[bool, Setting("Refuse files for what is otherwise a warning.", Truth())] = False
    watch: Annotated[bool, Setting("Read the files again whenever they change.", Truth())] = False
    database: Annotated[str, Setting("The SQLite file; ':memory:' keeps nothing.", FILE_LIKE, flag="--db")] = (
        "interlock.db"
    )
    socket: Annotated[
        str | None, Setting("The scheduler's Unix socket; beside the database by default.", Optional(FILE_LIKE))
    ] = None
    http: Annotated[
        str, Setting("Where to serve HTTP; 'local': on the Unix socket alone; 'off': nowhere.", Address())
    ] = "127.0.0.1:8420"
    workers: Annotated[int, Setting("How many worker processes to run.", Whole(0, 1000))] = 1
    slots: Annotated[int, Setting("How many runs a worker executes at once.", Whole(1, 100_000))] = 64
    processes: Annotated[int, Setting("How many of them in a process of their own, besides.", Whole(1, 10_000))] = 2
    lanes: Annotated[
        dict[str, int] | None, Setting("How many runs may execute in a lane at once.", Optional(Lanes()), flag="--lane")
    ] = None
    """over the defaults and INTERLOCK_LANE_<NAME>"""
    heartbeat: Annotated[float, Setting("How often a worker says that its work is alive.", Span("1ms", "1d"))] = 10.0
    drain: Annotated[float, Setting("How long work may go on after the first Ctrl-C.", Span("0s", "30d"))] = 30.0
    memory_limit: Annotated[
        int, Setting("How much memory an executor process may allocate, like 2GiB; 0 is no limit.", Size(0, 2**60))
    ] = 0
    log_level: Annotated[
        str, Setting("What to log; transitions are logged at info.", Choice("debug", "info", "warning", "error"))
    ] = "warning"
    log_format: Annotated[str, Setting("How to log.", Choice("text", "json"))] = "text"
    """of the worker processes too; a program that embeds the scheduler sets up its own logging for itself"""
    tokens: Annotated[
        list[Token], Setting("Who may come in over HTTP.", Tokens(), secret=True, in_environment=False)
    ] = []
    origins: Annotated[
        list[str], Setting("Origins whose pages may use the API, besides the server's own.", Texts(ORIGIN))
    ] = []
    hosts: Annotated[
        list[str], Setting("Names the server answers to, besides its address and localhost.", Texts(HOST))
    ] = []
    max_body: Annotated[int, Setting("The largest body of a request.", Size(1024, 2**30))] = 20 * 2**20
    max_connections: Annotated[int, Setting("How many connections HTTP takes at once.", Whole(1, 1_000_000))] = 4096
    request_timeout: Annotated[float, Setting("How long a client may take to send a request.", Span("100ms", "1h"))] = (
        30.0
    )
    secret_names: Annotated[
        list[str],
        Setting(
            "Patterns of argument names whose values are never shown.", Texts(Text(r"\S+", "a pattern like *token*"))
        ),
    ] = msgspec.field(default_factory=lambda: list(SECRET_NAMES))
    log_lines: Annotated[
        int, Setting("How many log lines are kept of a run, and of a service.", Whole(0, 10_000_000))
    ] = 10_000
    log_bytes: Annotated[int, Setting("How much log text is kept of a run, and of a service.", Size(0, 2**30))] = (
        4 * 2**20
    )
    prerun: Annotated[float, Setting("How long ahead of its time an occurrence becomes a run.", Span("0s", "1h"))] = (
        10.0
    )
    keep_runs: Annotated[
        int, Setting("How many runs are kept of a job, the newest; 0 keeps all.", Whole(0, 1_000_000_000))
    ] = 100_000
    keep_for: Annotated[
        float, Setting("How long a run is kept after its end; 0s is for ever.", Span("0s", "36500d"))
    ] = 90 * 86400.0
    """what is live, or has a dead letter, stays in any case"""
    keep_runs_total: Annotated[
        int, Setting("How many runs are kept over all jobs, the newest; 0 keeps all.", Whole(0, 1_000_000_000))
    ] = 10_000_000
    keep_keys: Annotated[
        float,
        Setting(
            "How long an idempotency key is kept, even if its run is pruned; 0s is for ever.", Span("0s", "36500d")
        ),
    ] = 30 * 86400.0

    def __post_init__(self) -> None:
        check(self)

    def socket_path(self) -> Path:
        """Absolute, so that it is the same socket for processes that were started elsewhere."""
        return Path(self.socket if self.socket is not None else scheduler_socket(self.database)).absolute()

    def http_socket_path(self) -> Path:
        """Where HTTP is served to the owner of this file, beside the scheduler's own socket."""
        return Path(http_socket(str(self.socket_path())))

    def http_address(self) -> tuple[str, int] | None:
        """Host and port; None if HTTP is not served over TCP."""
        return None if self.http in ("off", "local") else Address.parts(self.http)


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a command needs to find a server, besides what tells it where the server's socket is."""

    url: Annotated[
        str | None,
        Setting("The server: http://host:port or unix:/path; the local socket by default.", Optional(URL)),
    ] = None
    token: Annotated[
        str | None,
        Setting(
            "The token to show there; better given as INTERLOCK_TOKEN, which other users cannot see.",
            Optional(Text(r"[!-~]+", "text of printable characters without spaces", hidden=True)),
            secret=True,
        ),
    ] = None


def table(struct: type[msgspec.Struct]) -> dict[str, Setting]:
    """What the annotations of a struct declare."""
    hints = get_type_hints(struct, include_extras=True)
    return {name: get_args(hints[name])[1] for name in struct.__struct_fields__}


def check(settings: msgspec.Struct) -> None:
    """Put every field that the table knows into its proper form; raises for the first that has none."""
    for name in settings.__struct_fields__:
        if name in SETTINGS:
            value = SETTINGS[name].kind.check(getattr(settings, name), Place(name))
            msgspec.structs.force_setattr(settings, name, value)


SETTINGS = table(Settings)
CLIENT_SETTINGS = table(ClientSettings)
DEFAULTS: dict[str, Any] = {
    name: getattr(made, name) for made in (Settings(), ClientSettings()) for name in made.__struct_fields__
}


def flag_of(name: str) -> str:
    setting = SETTINGS.get(name) or CLIENT_SETTINGS[name]
    return setting.flag or "--" + name.replace("_", "-")


def variable_of(name: str) -> str:
    return PREFIX + name.upper()
