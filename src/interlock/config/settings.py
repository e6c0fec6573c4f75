"""The settings, each declared once: its name, type, default, meaning and limits."""

import os
import re
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from interlock.config.tokens import SECRET, Token, Tokens
from interlock.core.state import DEFAULT_LANES
from interlock.error import BadUse, BadValue
from interlock.fields.field import doc, fields_of
from interlock.fields.field_types import WORD, Choice, FieldPath, Kind, Schema, Size, Span, Table, Text, Texts, Whole
from interlock.fields.secret import SECRET_NAMES
from interlock.fields.sockets import beside, http_socket, is_on_server, scheduler_socket, without_password
from interlock.model.job import NAME
from interlock.model.lane import LIMIT, LaneSpec, with_limits
from interlock.model.pool import CAPABILITIES, DEFAULT_POOL, PROCESSES, SLOTS, WORKER_LABELS
from interlock.model.session import SessionPatterns

LANE_PREFIX = "INTERLOCK_LANE_"


LANE_NAME = Text(NAME.pattern, "a lane's name")
LANES = Table(LIMIT, "a mapping of lanes to their limits", LANE_NAME, "NAME=LIMIT")


def lanes(environment: Mapping[str, str], declared: Mapping[str, LaneSpec] = {}) -> dict[str, LaneSpec]:
    """Return every lane. The limits of the environment override those declared, and these override the defaults."""
    return with_limits(from_environment(environment), with_limits(DEFAULT_LANES) | dict(declared))


def from_environment(environment: Mapping[str, str]) -> dict[str, int]:
    found = {}
    for name, value in sorted(environment.items()):
        if name.startswith(LANE_PREFIX):
            place = FieldPath(name)
            lane = LANE_NAME.check(name.removeprefix(LANE_PREFIX).lower(), place)
            found[lane] = LIMIT.read(value, place)
    return found


def from_flags(flags: Sequence[str]) -> dict[str, int]:
    found = {}
    for flag in flags:
        name, separator, value = flag.partition("=")
        if not separator:
            raise BadValue("--lane", flag, "of the form NAME=LIMIT")
        found[LANE_NAME.check(name, FieldPath("--lane"))] = LIMIT.read(value, FieldPath(f"--lane {name}"))
    return found


PREFIX = "INTERLOCK_"


class Address(Kind):
    """`host:port`, or a word."""

    metavar = "HOST:PORT"

    def __init__(self, *words: str) -> None:
        """`words` stand for other places than an address."""
        self.words = words
        last = f", {' or '.join(map(repr, words))}" if words else ""
        self.expected = f"'host:port' with a port from 0 to 65,535{last}"

    def check(self, value: Any, place: FieldPath) -> str:
        if isinstance(value, str) and (value in self.words or self.parts(value) is not None):
            return value
        raise BadValue(str(place), value, self.expected)

    @staticmethod
    def parts(text: str) -> tuple[str, int] | None:
        host, separator, port = text.rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        host = host[1:-1] if bracketed else host
        labels = host.removesuffix(".").split(".")
        named = bracketed or (":" not in host and all(0 < len(label) < 64 for label in labels))
        valid = bool(host) and named and not any(letter in host for letter in "[]/@ \t\n")
        if not separator or not valid or not port.isascii() or not port.isdigit() or len(port) > 5:
            return None
        return (host, int(port)) if int(port) <= 65535 else None

    @classmethod
    def checked(cls, text: str) -> tuple[str, int]:
        parts = cls.parts(text)
        assert parts is not None, text
        return parts

    def schema(self) -> Schema:
        label = r"[^:.\[\]/@\s]{1,63}"
        host = rf"(\[[^\[\]/@\s]+\]|{label}(\.{label})*\.?)"
        port = "([0-5]?[0-9]{1,4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
        return {"type": "string", "pattern": f"^({'|'.join((*self.words, f'{host}:{port}'))})$"}


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """The forms of a setting that differ from the usual."""

    flag: str = ""  # flag, if it is not the name
    also: str = ""  # another name of the flag
    secret: bool = False
    in_environment: bool = True
    variable: str = ""  # a second variable, which wins over INTERLOCK_… and the file


class Setting(Given, frozen=True, kw_only=True):
    help: str
    kind: Kind


FILE = Text(r"[^\x00\n]+", "the path of a file", "FILE")
PATHS = Texts(Text(r"[^\x00\n]+", "the path of a file or a folder", "PATH"))
APP = Text(r"[^\x00\n]+", "module:variable", "MODULE:VARIABLE")
HOSTS = Texts(Text(r"[^\s/@]+", "a host name"))
URL = Text(
    r"unix:[^\x00\n]+|[^@?#\s]+",
    "of the form http://host:port or unix:/path, without user, password and query",
    "URL",
    hidden=True,
)
ORIGINS = Texts(Text(r"https?://[^\s/@]+", "an origin like https://example.org, without a path"))
NODES = Texts(
    Text(Address().schema()["pattern"].strip("^$"), "'host:port' with a port from 0 to 65,535", "HOST:PORT"), most=100
)
NODE_ROLES = ("scheduler", "gateway", "worker")
ROLES = Texts(
    Text("|".join(NODE_ROLES), f"one of {', '.join(NODE_ROLES)}", "ROLE"), least=1, expected="a list of roles"
)
COUNT = Whole(0)
KEEP = Span("0s", "36500d")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one scheduler."""

    app: Annotated[str | None, doc("App, as MODULE:VARIABLE."), APP, Given(also="-A")] = None
    files: Annotated[list[str], doc("Files and folders with jobs and services."), PATHS, Given(flag="PATH")] = []
    strict: Annotated[bool, doc("Refuse files that cause warnings.")] = False
    watch: Annotated[bool, doc("Reload the files whenever they change.")] = False
    dev: Annotated[bool, doc("Reload, and restart the workers, whenever sources or files change.")] = False
    database: Annotated[str, doc("SQLite file; ':memory:' keeps nothing."), FILE, Given(flag="--db")] = "interlock.db"
    socket: Annotated[str | None, doc("Unix socket of the scheduler; default beside the database."), FILE] = None
    http: Annotated[
        str, doc("Address of HTTP; 'local': only the Unix socket; 'off': none."), Address("local", "off")
    ] = "127.0.0.1:8420"
    listen_workers: Annotated[str | None, doc("Address for workers on other machines, over TLS."), Address()] = None
    worker_cert: Annotated[
        str | None, doc("Certificate to show to workers on other machines; default beside the database."), FILE
    ] = None
    worker_key: Annotated[str | None, doc("Key of that certificate; default beside the database."), FILE] = None
    nodes: Annotated[
        list[str],
        doc("Addresses at which a scheduler may lead; workers and gateways use the one that answers. May be repeated."),
        NODES,
        Given(flag="--node"),
    ] = []
    node_name: Annotated[str | None, doc("Name of this node; default that of the machine."), WORD] = None
    roles: Annotated[
        list[str],
        doc("What this node runs, with a database on a server; the flag may be repeated."),
        ROLES,
        Given(flag="--role"),
    ] = msgspec.field(default_factory=lambda: list(NODE_ROLES))
    ca: Annotated[
        str | None, doc("File with the CAs of the schedulers' certificates; default those of the system."), FILE
    ] = None
    fingerprint: Annotated[
        str | None,
        doc("Fingerprint of the nodes' certificate, as sha256:…, instead of a CA."),
        Text("sha256:[0-9a-f]{64}", "sha256: and 64 hexadecimal digits in lower case", "SHA256"),
    ] = None
    worker_token: Annotated[
        str | None, doc("Token of the workers, for schedulers elsewhere."), SECRET, Given(secret=True)
    ] = None
    worker_token_file: Annotated[str | None, doc("File with the token of workers."), FILE] = None
    gateway_token: Annotated[
        str | None, doc("Token of the gateway, for schedulers elsewhere."), SECRET, Given(secret=True)
    ] = None
    gateway_token_file: Annotated[str | None, doc("File with the token of the gateway."), FILE] = None
    workers: Annotated[int, doc("Number of worker processes."), Whole(0, 1000)] = 1
    slots: Annotated[int, doc("Runs a worker executes at once."), SLOTS, Given(also="--max-parallel")] = 64
    processes: Annotated[int, doc("Further runs a worker executes at once, each in its own process."), PROCESSES] = 2
    pool: Annotated[str, doc("Pool of the workers."), WORD] = DEFAULT_POOL
    worker_labels: Annotated[
        dict[str, str], doc("Labels of the workers; the flag may be repeated."), WORKER_LABELS, Given(flag="--label")
    ] = {}
    capabilities: Annotated[
        list[str],
        doc("Capabilities of the workers; the flag may be repeated."),
        CAPABILITIES,
        Given(flag="--capability"),
    ] = []
    lanes: Annotated[
        dict[str, int] | None, doc("Runs that may execute in a lane at once."), LANES, Given(flag="--lane")
    ] = None
    """override the defaults and INTERLOCK_LANE_<NAME>"""
    sessions: Annotated[
        dict[str, dict[str, Any]],
        doc("Options of sessions whose key matches a pattern with `*`; the longest match counts."),
        SessionPatterns(),
        Given(in_environment=False),
    ] = {}
    heartbeat: Annotated[float, doc("Interval of a worker's heartbeats."), Span("1ms", "1d")] = 10.0
    missed_heartbeats: Annotated[
        int, doc("Missed heartbeats in a row after which a worker's runs are lost."), Whole(1, 1000)
    ] = 3
    sweep_interval: Annotated[
        float, doc("Time between two searches for runs that the scheduler has missed."), Span("100ms", "1d")
    ] = 30.0
    drain: Annotated[float, doc("Time for runs to finish after the first Ctrl-C."), Span("0s", "30d")] = 30.0
    keep_workers: Annotated[
        bool, doc("Leave the workers running when the scheduler stops; the next one adopts their runs.")
    ] = False
    memory_limit: Annotated[
        int, doc("Memory an executor process may allocate, like 2GiB; 0 is no limit."), Size(0, 2**60)
    ] = 0
    lifespan_timeout: Annotated[
        float, doc("Time for the app's lifespan to start in an executor process."), Span("10ms", "1d")
    ] = 60.0
    log_level: Annotated[
        str, doc("Lowest level to log; transitions are logged at info."), Choice("debug", "info", "warning", "error")
    ] = "warning"
    log_format: Annotated[str, doc("Format of the log."), Choice("text", "json")] = "text"
    """also of worker processes; a program that embeds the scheduler sets up its own logging"""
    echo: Annotated[bool, doc("Print the log lines of runs on the terminal as well.")] = False
    tokens: Annotated[
        list[Token],
        doc("Tokens of callers over HTTP, and of workers on other machines."),
        Tokens(),
        Given(secret=True, in_environment=False),
    ] = []
    origins: Annotated[list[str], doc("Origins whose pages may use the API, besides the server's own."), ORIGINS] = []
    hosts: Annotated[list[str], doc("Names the server answers to, besides its address and localhost."), HOSTS] = []
    webhook_allow: Annotated[
        list[str],
        doc("Addresses, networks and hosts that requests may reach even if they are link-local or cloud metadata."),
        Texts(Text(r"[^\s@]+", "an address, a network like 169.254.0.0/16, or a host name")),
    ] = []
    policy_service: Annotated[str | None, doc("Address of a policy service that judges every run."), Address()] = None
    policy_check_fail_mode: Annotated[
        str,
        doc("What happens to a run while the policy service gives no verdict: it waits, or runs with a warning."),
        Choice("closed", "open"),
        Given(variable="POLICY_CHECK_FAIL_MODE"),
    ] = "closed"
    approval_timeout: Annotated[
        float, doc("Time after which a run that nobody has approved is denied."), Span("1s", "3650d")
    ] = 86400.0
    max_body: Annotated[int, doc("Largest body of a request."), Size(1024, 2**30)] = 20 * 2**20
    max_connections: Annotated[int, doc("Largest number of HTTP connections."), Whole(1, 1_000_000)] = 4096
    request_timeout: Annotated[float, doc("Time in which a request must have arrived."), Span("100ms", "1h")] = 30.0
    secret_names: Annotated[
        list[str],
        doc("Words that make an argument or a variable a secret if its name ends in one, such as `token`."),
        Texts(Text(r"\S+", "a word like token or api_key")),
    ] = msgspec.field(default_factory=lambda: list(SECRET_NAMES))
    log_lines: Annotated[int, doc("Log lines kept for each run and service."), Whole(0, 10_000_000)] = 10_000
    log_bytes: Annotated[int, doc("Log text kept for each run and service."), Size(0, 2**30)] = 4 * 2**20
    prerun: Annotated[float, doc("Time before its due time at which a run is created."), Span("0s", "1h")] = 10.0
    keep_runs: Annotated[int, doc("Newest ended runs kept for each job; 0 keeps all."), COUNT] = 100_000
    keep_for: Annotated[float, doc("Time a run is kept after its end; 0s is for ever."), KEEP] = 90 * 86400.0
    """live runs and those with a dead letter stay in any case"""
    keep_runs_total: Annotated[int, doc("Newest ended runs kept over all jobs; 0 keeps all."), COUNT] = 10_000_000
    keep_keys: Annotated[
        float, doc("Time an idempotency key is kept, even if its run is pruned; 0s is for ever."), KEEP
    ] = 30 * 86400.0

    keep_dead_letters: Annotated[
        float, doc("Time a dead letter and its run are kept, at most the newest 100,000; 0s is for ever."), KEEP
    ] = 90 * 86400.0

    def __post_init__(self) -> None:
        check(self)

    def every_lane(self, declared: Mapping[str, LaneSpec] = {}) -> dict[str, LaneSpec]:
        """Return all lanes: the defaults, then documents, then the environment, then flags and file; the limit of a
        later source overrides that of an earlier one."""
        return with_limits(self.lanes or {}, lanes(os.environ, declared))

    def database_file(self) -> Path:
        """Return the file of the database, for what is done with files alone."""
        if is_on_server(self.database):
            why = f"{without_password(self.database)} is no file; use the means of the server, such as pg_dump"
            raise BadUse("database", why)
        return Path(self.database)

    def socket_path(self) -> Path:
        """Return an absolute path, valid for processes started in other folders."""
        return Path(self.socket if self.socket is not None else scheduler_socket(self.database)).absolute()

    def http_socket_path(self) -> Path:
        """Return the socket that serves HTTP to its owner, beside the scheduler's own."""
        return Path(http_socket(str(self.socket_path())))

    def name_of_node(self) -> str:
        return self.node_name or re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname())[:40] or "node"

    def worker_files(self) -> tuple[str, str]:
        """Return the files of the certificate for workers elsewhere and of its key."""
        name = beside(self.database)
        return self.worker_cert or f"{name}.worker.crt", self.worker_key or f"{name}.worker.key"

    def http_address(self) -> tuple[str, int] | None:
        """Return host and port; None if HTTP is not served over TCP."""
        return None if self.http in ("off", "local") else Address.parts(self.http)


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that locate a server, besides those that name its socket."""

    url: Annotated[str | None, doc("Server: http://host:port or unix:/path; default the local socket."), URL] = None
    token: Annotated[
        str | None,
        doc("Token for the server; INTERLOCK_TOKEN is safer, as other users cannot see it."),
        Text(r"[!-~]+", "text of printable characters without spaces", hidden=True),
        Given(secret=True),
    ] = None


def table(struct: type[msgspec.Struct]) -> dict[str, Setting]:
    """Return the settings that a struct declares."""
    found: dict[str, Setting] = {}
    for name, field in fields_of(struct).items():
        given = next((extra for extra in field.extras if isinstance(extra, Given)), Given())
        found[name] = Setting(help=field.description, kind=field.kind, **msgspec.structs.asdict(given))
    return found


def check(settings: msgspec.Struct) -> None:
    """Convert every known field; raise for the first that is wrong."""
    for name in settings.__struct_fields__:
        if name in SETTINGS:
            value = SETTINGS[name].kind.check(getattr(settings, name), FieldPath(name))
            msgspec.structs.force_setattr(settings, name, value)


SETTINGS = table(Settings)
CLIENT_SETTINGS = table(ClientSettings)
DEFAULTS: dict[str, Any] = {
    name: getattr(made, name) for made in (Settings(), ClientSettings()) for name in made.__struct_fields__
}


def flag_of(name: str) -> str:
    setting = SETTINGS.get(name) or CLIENT_SETTINGS[name]
    return setting.flag or "--" + name.replace("_", "-")


def setting_of(name: str) -> str:
    """Return the setting whose flag has this name, for hints; the name itself if there is no such flag."""
    return next((setting for setting in SETTINGS if flag_of(setting) == "--" + name.replace("_", "-")), name)


def variable_of(name: str) -> str:
    return PREFIX + name.upper()
