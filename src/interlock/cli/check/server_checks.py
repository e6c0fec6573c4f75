"""The checks of `doctor` on the server: its sockets, its port, its readiness."""

import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from interlock.cli.check.doctor_checks import DoctorFinding, fail, judge, ok, warn
from interlock.cli.shared.options import Flags
from interlock.client.http.client import Client
from interlock.config import Resolved, Settings
from interlock.error import Forbidden, InterlockError, TokensNeeded, Unauthorized
from interlock.fields.sockets import is_loopback, is_on_server
from interlock.model.child_info import UP, ChildInfo
from interlock.model.cluster import ClusterInfo
from interlock.model.workflow_info import WorkflowStatus

PATIENCE = 5.0
NO_SERVER = "no server runs"
MOST_NAMED = 5


def server(flags: Flags, resolved: Resolved) -> Iterator[DoctorFinding]:
    settings = resolved.settings
    clustered = is_on_server(settings.database)
    scheduler = _unix("socket", settings.socket_path(), "no scheduler leads here" if clustered else NO_SERVER)
    http = _unix("http socket", settings.http_socket_path(), NO_SERVER)
    yield from (scheduler, http, _port(settings))
    url = flags.url(resolved)
    if _answers(http) or url == resolved.client.url:
        yield from _ready(url, resolved.client.token, clustered)
    elif _answers(scheduler):
        fix = "start 'interlock up' without --http off: commands reach it over HTTP"
        yield warn("server", "the scheduler runs, and does not serve HTTP", fix)
    else:
        yield ok("server", "not running; start it with: interlock up -A module:app")


def _answers(finding: DoctorFinding) -> bool:
    return finding.level == "ok" and finding.detail.endswith("answers")


def _unix(name: str, path: Path, absent: str) -> DoctorFinding:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return ok(name, f"{path} does not exist: {absent}")
    except OSError as error:
        return fail(name, f"{path}: {error.strerror}", "make its folder readable for this user")
    if not stat.S_ISSOCK(mode):
        return fail(name, f"{path} is a file, not a socket", "remove it, or choose another with --socket")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(PATIENCE)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return ok(name, f"{path} was left by a killed server; the next one replaces it")
        except OSError as error:
            return fail(name, f"{path}: {error}", "use it as the user that runs 'interlock up'")
    return ok(name, f"{path} answers")


def _port(settings: Settings) -> DoctorFinding:
    """Check that the port is free, or served by Interlock."""
    address = settings.http_address()
    if address is None:
        return ok("port", f"none: http is {settings.http!r}")
    host, port = address
    if not is_loopback(host) and not settings.tokens:
        fix = "add tokens to interlock.yaml, or listen on 127.0.0.1"
        return fail("port", str(TokensNeeded(settings.http)), fix)
    name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if port == 0:
        return ok("port", "any that is free")
    if _is_free(host, port):
        return ok("port", f"{name} is free")
    if _is_ours(host, port):
        return ok("port", f"{name} is served by Interlock")
    fix = "stop that program (find it with: ss -ltnp), or choose another port with --http"
    return fail("port", f"{name} is taken by another program", fix)


def _is_free(host: str, port: int) -> bool:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError:
        return False
    return True


def _is_ours(host: str, port: int) -> bool:
    connection = HTTPConnection("127.0.0.1" if host == "0.0.0.0" else host, port, timeout=PATIENCE)
    try:
        connection.request("GET", "/healthz")
        body = connection.getresponse().read()
        # A server without tokens refuses other users.
        return body == b'{"alive":true}' or b"urn:interlock:problem:unauthorized" in body
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def _cluster(found: ClusterInfo) -> DoctorFinding:
    """Name the nodes that differ from the one that leads."""
    faults = [
        *(f"{node.name} differs in {', '.join(node.differs)}" for node in found.nodes if node.differs),
        *(f"the clock of {node.name} is {node.clock:+.1f}s off" for node in found.nodes if abs(node.clock) >= 1.0),
    ]
    detail = "; ".join(faults) or f"{found.leader} leads, nodes: {', '.join(sorted(node.name for node in found.nodes))}"
    return judge("cluster", bool(faults), detail, "give all nodes the same settings, files and time", "warning")


def _children(tree: ChildInfo, clustered: bool) -> Iterator[DoctorFinding]:
    """Check that every worker can start its processes, and that the sender and the inspector are up. Workers of a
    cluster are not in its tree."""
    for group in ("sending",) if clustered else ("workers", "sending"):
        children = [one for one in tree.everybody() if one.path.startswith(f"{group}/")]
        down = [child for child in children if child.reason and (child.traceback or child.status not in UP)]
        faults = [f"{one.name}: {one.reason}" for one in down]
        detail = "; ".join(faults) or f"{len(children)} in the tree"
        if children or group == "workers":
            yield judge(group, bool(faults), detail, "'interlock tree' shows the traceback; the start is tried again")


def _workflows(client: Client) -> DoctorFinding:
    """Name the halted workflow runs."""
    halted = list(client.workflows(status=WorkflowStatus.HALTED, limit=MOST_NAMED + 1))
    named = ", ".join(f"{one.run_id} ({one.job_id})" for one in halted[:MOST_NAMED])
    more = ", and more" if len(halted) > MOST_NAMED else ""
    detail = f"halted: {named}{more}" if halted else "none is halted"
    fix = "'interlock explain RUN' says why; start a worker with fitting code, or 'interlock workflow abandon RUN'"
    return judge("workflows", bool(halted), detail, fix, "warning")


def _ready(url: str, token: str | None, clustered: bool) -> Iterator[DoctorFinding]:
    try:
        with Client(url, token=token, timeout=PATIENCE, patience=0, first_contact=0) as client:
            found = client.ready()
            try:  # anybody may read the readiness, but not runs
                next(client.runs(limit=1), None)
                yield ok("token", "this user has access to the server")
                # A viewer may not read the tree.
                with suppress(Forbidden):
                    if clustered:
                        yield _cluster(client.cluster())
                    yield from _children(client.tree(), clustered)
                yield _workflows(client)
            except (Unauthorized, Forbidden) as error:
                yield fail("token", str(error), "set INTERLOCK_TOKEN to one of the server's tokens")
    except InterlockError as error:
        yield fail("server", str(error), "read the output of 'interlock up', and restart it")
        return
    fix = "read the output of 'interlock up', and restart it if this continues"
    for name, check in found.checks.items():
        yield judge(f"server: {name}", not check.ok, check.detail or "works", fix)
