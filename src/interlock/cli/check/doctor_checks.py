"""The checks of `doctor`: this machine, the folder of the database, the database, the app, the files. They change
nothing."""

import asyncio
import grp
import os
import pwd
import resource
import shutil
import socket
import sqlite3
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, redirect_stdout
from pathlib import Path
from typing import Literal

import msgspec

from interlock.api.peer import is_own, owner_of_peer
from interlock.cli.draw.format import policy_line
from interlock.config import Resolved, Settings
from interlock.config.documents import Faults, read
from interlock.config.sources import NO_APP, FromApp, build, of_app
from interlock.error import DatabaseBehind, DatabaseDamaged, DatabaseMoved, InterlockError
from interlock.fields.sockets import file_of, is_on_server
from interlock.stores.open import look_at_server
from interlock.stores.sql.lookups import read_position
from interlock.stores.sql.view import at_once
from interlock.stores.sqlite import database as sqlite
from interlock.stores.sqlite.database import connect_reader, lock_path, read_lock
from interlock.stores.sqlite.queries import SqliteView
from interlock.stores.sqlite.repair import repair_copy

Level = Literal["ok", "warning", "failed"]

NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "fuse.sshfs"})
LITTLE_SPACE, NO_SPACE = 2**30, 64 * 2**20
SLOW_SYNC = 0.05
CHECK_SECONDS = 10.0  # limit on the search for damage
SPARE_FILES = 256  # descriptors beside one for each HTTP connection: database, workers, sockets
MANY_TOO_MANY = 50_000  # surplus that means pruning is behind
_ALL_RUNS = "SELECT count(*) FROM runs INDEXED BY runs_of_job"
_SURPLUS = """SELECT coalesce(sum(max(0, runs - ?)), 0)
FROM (SELECT count(*) AS runs FROM runs INDEXED BY runs_of_job WHERE instr(id, '@') = 0 GROUP BY job_id)"""
EARLIEST = 1_735_689_600.0  # the start of 2025; an earlier clock is wrong


class DoctorFinding(msgspec.Struct, frozen=True):
    name: str
    level: Level
    detail: str
    fix: str = ""


def _finding(level: Level) -> Callable[..., DoctorFinding]:
    return lambda name, detail, fix="": DoctorFinding(name, level, detail, fix)


ok, warn, fail = _finding("ok"), _finding("warning"), _finding("failed")


def judge(name: str, is_bad: bool, detail: str, fix: str, level: Level = "failed") -> DoctorFinding:
    return DoctorFinding(name, level, detail, fix) if is_bad else DoctorFinding(name, "ok", detail)


def machine(settings: Settings) -> Iterator[DoctorFinding]:
    yield ok("python", sys.version.split()[0])
    is_old = sqlite3.sqlite_version_info < (3, 37)
    yield judge("sqlite", is_old, sqlite3.sqlite_version, "install a Python with SQLite 3.37 or later")
    try:
        os.close(os.pidfd_open(os.getpid()))
        yield ok("pidfd", "available")
    except (AttributeError, OSError) as error:
        fix = "run on Linux 5.3 or later, without a seccomp filter on it"
        yield fail("pidfd", f"not available ({error})", fix)
    soft, wanted = resource.getrlimit(resource.RLIMIT_NOFILE)[0], settings.max_connections + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        fix = f"raise it with 'ulimit -n {wanted}' (LimitNOFILE= in a service file), or lower max_connections"
        yield warn("open files", f"limit {soft:,}; {wanted:,} needed", fix)
    else:
        yield ok("open files", f"limit {soft:,}" if soft != resource.RLIM_INFINITY else "no limit")
    if settings.http_address() is not None and not settings.tokens:
        yield _loopback()
    now = time.time()
    text = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    yield judge("clock", now < EARLIEST, text, "set the clock: runs would be due at the wrong time")


def _loopback() -> DoctorFinding:
    """Check that a server without tokens can tell its own user from others."""
    why = "the owner of a connection is unknown (sock_diag)"
    try:
        with (
            socket.create_server(("127.0.0.1", 0)) as listener,
            socket.create_connection(listener.getsockname()),
            listener.accept()[0] as accepted,
        ):
            if is_own(owner_of_peer(accepted)):
                return ok("loopback", "the owner of a connection can be found")
    except OSError as error:
        why = str(error)
    fix = "allow AF_NETLINK to this process, configure tokens, or serve HTTP on the Unix socket alone (http: local)"
    return warn("loopback", f"{why}, so every TCP connection is refused", fix)


def settings_file(resolved: Resolved) -> DoctorFinding:
    if resolved.file is None:
        return ok("settings", "no settings file; defaults, INTERLOCK_* and flags apply")
    file, status, me = resolved.file, os.stat(resolved.file), os.geteuid()
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid not in (0, me):
        detail = f"{file} belongs to another user (uid {status.st_uid}), who can decide what runs here"
        return fail("settings", detail, f"read it, then chown {me} {file}")
    if _others_may_write(status):
        detail = f"{file} can be changed by other users (mode {mode:o}), who can decide what runs here"
        return fail("settings", detail, f"read it, then chmod go-w {file}")
    for token in resolved.settings.tokens:
        try:
            token.grant()
        except InterlockError as error:
            return fail("settings", str(error), f"set {token.env} where 'interlock up' is started")
    if mode & 0o077 and any(token.token is not None for token in resolved.settings.tokens):
        detail = f"{file} has tokens, and others may read it (mode {mode:o})"
        return warn("settings", detail, f"chmod 600 {file}, or give tokens as sha256 or env")
    return ok("settings", f"{file} is valid")


def _others_may_write(status: os.stat_result) -> bool:
    """Return whether anyone but the owner may write. The owner's private group does not count: many systems let it
    write."""
    if status.st_mode & stat.S_IWOTH:
        return True
    if not status.st_mode & stat.S_IWGRP:
        return False
    try:
        owner, group = pwd.getpwuid(status.st_uid).pw_name, grp.getgrgid(status.st_gid)
    except KeyError:
        return True
    return group.gr_name != owner or not set(group.gr_mem) <= {owner}


def folder(database: str) -> Iterator[DoctorFinding]:
    """Check the place of the database."""
    if file_of(database) is None:
        if not is_on_server(database):
            yield ok("folder", "none: the database is kept in memory")
        return
    place = Path(database).absolute().parent
    if not place.is_dir():
        yield fail("folder", f"{place} does not exist", f"mkdir -p {place}")
        return
    free = shutil.disk_usage(place).free
    text = f"{free / 2**20:,.0f} MiB free" if free < LITTLE_SPACE else f"{free / 2**30:,.1f} GiB free"
    fix = "free some space: on a full disk, Interlock accepts no runs and continues none"
    yield judge("disk space", free < LITTLE_SPACE, text, fix, "failed" if free < NO_SPACE else "warning")
    kind = file_system(place) or "unknown"
    text = f"{place} is on a network ({kind})" if kind in NETWORK else kind
    fix = "put the database on a local disk: SQLite's locks and log do not work over a network"
    yield judge("file system", kind in NETWORK, text, fix)
    yield _sync(place)


def file_system(place: Path) -> str | None:
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return None
    found: dict[Path, str] = {}
    for before, _, after in (line.partition(" - ") for line in lines):
        found[Path(before.split()[4].encode().decode("unicode_escape"))] = after.split()[0]
    real = place.resolve()
    return next((found[one] for one in (real, *real.parents) if one in found), None)


def _sync(place: Path) -> DoctorFinding:
    """Time small synced writes: every acknowledged run waits for one."""
    times = []
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            for _ in range(5):
                begun = time.perf_counter()
                file.write(b"x" * 4096)
                file.flush()
                os.fsync(file.fileno())
                times.append(time.perf_counter() - begun)
    except OSError as error:
        fix = f"make {place} writable for this user, or choose another with --db"
        return fail("write sync", f"{place} cannot be written to ({error.strerror})", fix)
    median = sorted(times)[2]
    is_slow = median > SLOW_SYNC
    text = f"{median * 1000:.1f} ms{', which is slow' * is_slow}"
    fix = "put the database on a faster disk: each submit waits for at least one write"
    return judge("write sync", is_slow, text, fix, "warning")


def database(path: str) -> Iterator[DoctorFinding]:
    """Check the file, its modes, and who holds its lock."""
    if file_of(path) is None:
        return
    if (deleted := sqlite.holder_of_deleted(sqlite.lock_path(path))) is not None:
        fix = f"restart process {deleted}; until then it acknowledges nothing"
        yield fail("database", f"the lock file of process {deleted} was deleted", fix)
        return
    if not Path(path).exists():
        yield ok("database", f"{path} does not exist yet; 'interlock up' creates it")
        return
    if Path(path).is_dir():
        yield fail("database", f"{path} is a directory", "choose a file with --db")
        return
    try:
        readable, version, newest = _look_at_file(path, sqlite.read_lock(path)[1])
    except (InterlockError, sqlite3.Error) as error:
        yield fail("database", str(error), "choose another file with --db, or restore a backup")
        return
    yield ok("database", f"{path}, schema version {version}")
    for name in readable:
        yield warn("file mode", f"other users can read {name}", f"chmod 600 {name}")
    if newest is not None and newest > time.time() + 60:
        fix = "set the clock, or wait: it decides when runs are due"
        yield warn("clock", "the newest run has a time in the future", fix)
    holder = lock_holder(path)
    yield ok("lock", f"held by process {holder}" if holder else "free")


def _look_at_file(path: str, noted: int) -> tuple[list[str], int, float | None]:
    """Return the files that others can read, the version of the layout, and the time of the newest run."""
    sqlite.check_header(Path(path))
    readable = sqlite.check_files(Path(path))
    with closing(sqlite.connect_reader(Path(path))) as connection:
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        if where := sqlite.damage(connection, CHECK_SECONDS):
            raise DatabaseDamaged(path, where)
        if (position := at_once(read_position(SqliteView(connection)))) < noted:
            raise DatabaseBehind(path, position, noted)
        if (move := sqlite.read_move(connection)) is not None:
            raise DatabaseMoved(path, move.to)
        newest: float | None = connection.execute("SELECT max(created_at) FROM runs").fetchone()[0]
    return readable, version, newest


def server_database(url: str) -> Iterator[DoctorFinding]:
    """Check what a server promises, whose schema it has, and who leads."""
    try:
        found = asyncio.run(look_at_server(url, CHECK_SECONDS))
    except InterlockError as error:
        yield fail("database", str(error), "correct the URL in --db, or the server")
        return
    layout = f"schema {found.schema}, version {found.layout}" if found.layout else f"schema {found.schema} is empty"
    yield ok("database", f"{found.shown}, PostgreSQL {found.promises.version}, {layout}")
    for name, value in found.promises.broken:
        yield warn(name, f"{value} on the server", "turn it on: acknowledged runs can be lost with its machine")
    if not found.promises.waits_for_disk:
        fix = "set it to on, or to remote_apply; 'interlock up' does so for itself"
        yield warn("synchronous_commit", f"{found.promises.synchronous_commit} on the server", fix)
    fix = "give its role the right to create and to write tables"
    yield judge("rights", not found.may_write, "the role may not write" if not found.may_write else "may write", fix)
    yield ok("lease", f"held by {found.leader}" if found.leader else "free")


def stored_runs(settings: Settings) -> Iterator[DoctorFinding]:
    """Check that pruning keeps up."""
    if file_of(settings.database) is None:
        return
    live_runs = "SELECT count(*) FROM runs INDEXED BY runs_live WHERE ended_at IS NULL"
    try:
        with closing(connect_reader(Path(settings.database))) as connection:
            total = connection.execute(_ALL_RUNS).fetchone()[0]
            of_jobs = connection.execute(_SURPLUS, (settings.keep_runs or sys.maxsize,)).fetchone()[0]
            live = connection.execute(live_runs).fetchone()[0]
    except (InterlockError, sqlite3.Error):
        return  # `database` reports faults of the file
    surplus = max(of_jobs, total - (settings.keep_runs_total or sys.maxsize)) - live
    more = f", about {surplus:,} more than keep_runs and keep_runs_total allow" if surplus > MANY_TOO_MANY else ""
    fix = "pruning is behind: submit more slowly, use a faster disk, or raise the limits"
    yield judge("stored runs", bool(more), f"{total:,}{more}", fix, "warning")


def lock_holder(path: str) -> str | None:
    """Return the process that holds the lock, without trying to take it: a scheduler may be starting."""
    try:
        inode, named = os.stat(lock_path(path)).st_ino, read_lock(path)[0]
        held = any(line.split()[5].endswith(f":{inode}") for line in Path("/proc/locks").read_text().splitlines())
    except (OSError, IndexError):
        return None
    return (named or "unknown") if held else None


def repair(path: str, target: str) -> Iterator[DoctorFinding]:
    """Save what can be read of the database into a new file, and count it."""
    try:
        tables = repair_copy(Path(path), Path(target))
    except InterlockError as error:
        yield fail("repair", str(error), "nothing was saved; restore a backup")
        return
    for table in tables:
        counted = f"{table.saved:,} rows saved, {table.lost:,}{'' if table.exact else ' or more'} lost"
        is_whole = table.exact and not table.lost
        yield judge(f"repair: {table.table}", not is_whole, counted, f"look for them in a backup of {path}", "warning")
    yield ok("repair", f"saved into {target}; use it with: interlock up --db {target}")


def app_and_files(settings: Settings) -> Iterator[DoctorFinding]:
    """Check app and files together: the app is imported once, and declares services too."""
    found: FromApp | None = None
    try:
        with redirect_stdout(sys.stderr):  # the app's own output
            found = of_app(settings.app)
    except InterlockError as error:
        yield fail("app", str(error), "run the command in the folder of the module, and fix what it reports")
    if found is NO_APP:
        yield ok("app", "not given; name it with -A MODULE:VARIABLE")
    elif found is not None:
        is_empty = not found.definitions and not found.services
        text = f"{found.target} has {'no' if is_empty else len(found.definitions)} jobs"
        yield judge("app", is_empty, text, "define one with @app.job('name')", "warning")
    yield from _declared(settings, found)


def _declared(settings: Settings, app: FromApp | None) -> Iterator[DoctorFinding]:
    """Report each fault in the declarations of the files and the app."""
    faults = Faults(settings.strict)
    faults.incomplete = app is None  # so that its declarations are not reported as missing
    app = NO_APP if app is None else app
    try:
        loaded = build(read(settings.files, faults), faults, app, lanes=settings.every_lane())
    except InterlockError as error:
        first, *rest = str(error).split("\n")
        for line in rest or [first]:
            yield fail("declared", line, "fix it: 'interlock up' does not start with it")
        return
    for warning in loaded.warnings:
        yield warn("declared", warning, "fix it, or keep it if you meant it")
    unasked = "no fault in the files; the app could not be checked"
    yield ok("declared", unasked if faults.incomplete else loaded.summary(len(app.definitions)))
    yield ok("policy", policy_line(loaded.policy).removeprefix("policy: "))
