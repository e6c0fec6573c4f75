"""Every error Interlock raises: one root, a stable code each, messages that name the field and the value."""

import re
from typing import Any, ClassVar

_BY_CODE: dict[str, type["InterlockError"]] = {}


class InterlockError(Exception):
    """The root. `code` is stable; the message is one line for a person."""

    code: ClassVar[str] = "internal"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _BY_CODE.setdefault(cls.code, cls)


def rebuild(code: str, message: str) -> InterlockError:
    """The error that a peer reported by code and message."""
    kind = _BY_CODE.get(code, InterlockError)
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    if type(error).code != code:
        error.args = (f"{message} ({code})",)
    return error


def shown(value: object, limit: int = 80) -> str:
    """A value as it appears in a message: quoted, on one line. A long one is not cut but left out: should it be a
    secret, it would not be known by a part of it where secrets are masked."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a user's __repr__ may raise anything, and the message must still be made
        text = f"<{type(value).__name__}>"
    text = text.replace("\n", "\\n")
    return text if len(text) <= limit else f"<{type(value).__name__}, too long to show>"


def without_value(name: object) -> object:
    """A name as it appears in a message: what stands behind a `=` in it was meant as a value, and may be a secret."""
    if not isinstance(name, str) or "=" not in name:
        return name
    return name.partition("=")[0] + "=…"


class BadValue(InterlockError):
    code = "bad_value"

    def __init__(self, field: str, value: object, expected: str) -> None:
        super().__init__(f"{field}: {shown(value)} is not {expected}")
        self.field, self.value = field, value


class BadDuration(InterlockError):
    code = "bad_duration"

    def __init__(self, field: str, value: object, expected: str = "a duration like 800ms, 10s, 5m, 2h or 1d") -> None:
        super().__init__(f"{field}: {shown(value)} is not {expected}")
        self.field, self.value = field, value


class UnknownJob(InterlockError):
    code = "unknown_job"

    def __init__(self, job_id: str, suggestion: str | None = None) -> None:
        hint = f"; did you mean {suggestion!r}?" if suggestion else ""
        super().__init__(f"job: {shown(job_id)} is not defined{hint}")
        self.job_id = job_id


class UnknownRun(InterlockError):
    code = "unknown_run"

    def __init__(self, run_id: str) -> None:
        super().__init__(f"run: {shown(run_id)} does not exist")
        self.run_id = run_id


class RunPruned(UnknownRun):
    """A run that is gone, and whose key or occurrence is still taken."""

    code = "run_pruned"

    def __init__(self, run_id: str) -> None:
        InterlockError.__init__(
            self,
            f"run: {shown(run_id)} has ended and was pruned; "
            "to keep runs longer, raise keep_runs, keep_runs_total or keep_for",
        )
        self.run_id = run_id


class DuplicateJob(InterlockError):
    code = "duplicate_job"

    def __init__(self, job_id: str, first: str, second: str) -> None:
        super().__init__(f"job: {job_id!r} is defined twice, by {first} and by {second}")


class NotPut(InterlockError):
    """A job that is declared is changed where it is declared."""

    code = "job_declared"

    def __init__(self, job_id: str, where: str = "") -> None:
        told = f" at {where}" if where else " in Python or in a file"
        super().__init__(f"job: {job_id!r} is declared{told}, and is changed and removed there")
        self.job_id = job_id


class BadSchedule(InterlockError):
    """The time of a schedule has passed, or there is none."""

    code = "bad_schedule"


class DuplicateService(InterlockError):
    """Services and groups share their names."""

    code = "duplicate_service"

    def __init__(self, name: str, first: str, second: str) -> None:
        super().__init__(f"service: {name!r} is defined twice, at {first} and at {second}")


class BadHandler(InterlockError):
    code = "bad_handler"


class BadPayload(InterlockError):
    code = "bad_payload"

    def __init__(self, job_id: str, problem: str) -> None:
        super().__init__(f"payload of {job_id!r}: {problem}")


class NotJson(InterlockError):
    """Says what kind of thing is not JSON, and never quotes it: it may be a secret."""

    code = "not_json"

    def __init__(self, where: str, what: str, why: str = "") -> None:
        # The place is made of the user's own keys. It is shown as it is or not at all, like any value.
        place = where if len(where) <= 200 and where.isprintable() else re.split(r"[.\[]", where, maxsplit=1)[0] + "…"
        super().__init__(f"{place}: {what} is not JSON{f' ({why})' if why else ''}")


class PayloadTooLarge(InterlockError):
    code = "payload_too_large"

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(f"{what}: {size:,} bytes as JSON, the limit is {limit:,}")


class IdempotencyConflict(InterlockError):
    code = "idempotency_conflict"

    def __init__(self, key: str, run_id: str, field: str = "idempotency_key") -> None:
        super().__init__(
            f"{field}: {key!r} was used for run {run_id} with another job or payload; "
            f"repeat the first submit unchanged, or use another {field}"
        )
        self.key, self.run_id = key, run_id


class UnknownBulk(InterlockError):
    code = "unknown_bulk"

    def __init__(self, bulk_id: str) -> None:
        super().__init__(f"bulk request: {shown(bulk_id)} does not exist")


class InvalidTransition(InterlockError):
    code = "invalid_transition"

    def __init__(self, run_id: str, before: str, after: str) -> None:
        super().__init__(f"run {run_id}: {before} cannot become {after}")
        self.run_id, self.before, self.after = run_id, before, after


class Draining(InterlockError):
    code = "draining"

    def __init__(self) -> None:
        super().__init__("the scheduler is stopping and takes no new work; submit again once it is back")


class StoreUnavailable(InterlockError):
    """The store cannot be read or written now; nothing of the batch was kept."""

    code = "store_unavailable"

    def __init__(self, why: str, asked: bool = False) -> None:
        """`asked`: the caller only reads. The message then says nothing about changes, which may have been made."""
        super().__init__(
            f"the store cannot be read now ({why}); try again"
            if asked
            else f"the store does not work now ({why}); nothing was changed, try again"
        )
        self.why = why


class DatabaseGone(StoreUnavailable):
    """A file was deleted, moved or replaced under the scheduler: whatever is written to it is lost."""

    code = "database_gone"

    def __init__(self, path: str) -> None:
        InterlockError.__init__(
            self,
            f"database: {path} was deleted, moved or replaced under the scheduler, so nothing is acknowledged; "
            "put the same file back, or stop the scheduler, bring back a backup, and start it again",
        )


class DatabaseDamaged(StoreUnavailable):
    code = "database_damaged"

    def __init__(self, path: str, where: str) -> None:
        InterlockError.__init__(
            self,
            f"database: {path} is damaged ({where}); stop the scheduler, then bring back a backup, or save what can "
            f"be read with: interlock doctor --db {path} --repair-copy NEWFILE",
        )


class DatabaseBehind(InterlockError):
    """The file has less than was stored in it."""

    code = "database_behind"

    def __init__(self, path: str, found: int, noted: int) -> None:
        super().__init__(
            f"database: {path} ends at position {found}, but {noted} was stored: {path}-wal was cut or removed, or an "
            f"older copy was put here; put the missing file back, or accept the loss by removing {path}.lock"
        )


class NotPrivate(InterlockError):
    """A file that another user made, or could have changed."""

    code = "not_private"

    def __init__(self, path: str, why: str, fix: str) -> None:
        super().__init__(f"database: {path} is refused because {why}; {fix}")


class StoreInUse(InterlockError):
    code = "store_in_use"

    def __init__(self, path: str, holder: str) -> None:
        super().__init__(f"database: {path} is in use by another scheduler ({holder}); stop it or choose another file")


class NotADatabase(InterlockError):
    code = "not_a_database"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"database: {path} is not an Interlock database ({why}); choose another file")


class DatabaseTooNew(InterlockError):
    code = "database_too_new"

    def __init__(self, path: str, found: int, known: int) -> None:
        super().__init__(
            f"database: {path} has schema version {found}, this Interlock knows up to {known}; upgrade Interlock"
        )


class CannotOpenDatabase(InterlockError):
    code = "cannot_open_database"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"database: {path} cannot be opened ({why})")


class SocketInUse(InterlockError):
    code = "socket_in_use"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"socket: {path} is taken ({why}); choose another with --socket")


class CannotListen(InterlockError):
    code = "cannot_listen"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"socket: cannot listen on {path} ({why})")


class NotRunning(InterlockError):
    code = "not_running"

    def __init__(self, path: str) -> None:
        super().__init__(f"no scheduler answers at {path}; start one with: interlock up -A module:app")


class ConnectionLost(InterlockError):
    """The scheduler went away before it answered: what was asked may or may not have happened."""

    code = "connection_lost"

    def __init__(self, what: str) -> None:
        super().__init__(f"connection lost before {what} was answered; with an idempotency_key it is safe to repeat")


class Refused(InterlockError):
    """The other side of a link does not speak with us."""

    code = "refused"


class CannotImport(InterlockError):
    code = "cannot_import"

    def __init__(self, target: str, why: str, field: str = "app") -> None:
        super().__init__(f"{field}: cannot load {target!r}: {why}")
        self.why = why


class BadJson(InterlockError):
    """A body or a file that cannot be read as JSON at all."""

    code = "bad_json"

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"{where}: not valid JSON ({why})")


class UnknownField(InterlockError):
    code = "unknown_field"

    def __init__(self, field: str, suggestion: str | None = None) -> None:
        hint = f"; did you mean {suggestion!r}?" if suggestion else ""
        super().__init__(f"{shown(field)} is not a field here{hint}")
        self.field = field


class MissingField(InterlockError):
    code = "missing_field"

    def __init__(self, field: str) -> None:
        super().__init__(f"{field}: missing, and it must be given")
        self.field = field


class BadCursor(InterlockError):
    code = "bad_cursor"

    def __init__(self, value: object) -> None:
        super().__init__(f"cursor: {shown(value)} is not one that was given out here; begin without")


class BodyTooLarge(InterlockError):
    code = "body_too_large"

    def __init__(self, limit: int) -> None:
        super().__init__(f"body: larger than {limit:,} bytes")


class Unauthorized(InterlockError):
    """No token or an unknown one, which are not told apart; or another user, where there are no tokens."""

    code = "unauthorized"

    def __init__(
        self, text: str = "a valid token is needed: send it as 'Authorization: Bearer …', or set INTERLOCK_TOKEN"
    ) -> None:
        super().__init__(text)


class Forbidden(InterlockError):
    code = "forbidden"


class WrongOrigin(InterlockError):
    code = "wrong_origin"


class NotFound(InterlockError):
    """No such path."""

    code = "not_found"


class MethodNotAllowed(InterlockError):
    code = "method_not_allowed"


class UnsupportedMediaType(InterlockError):
    code = "unsupported_media_type"


class BadRequest(InterlockError):
    """What came in is not HTTP."""

    code = "bad_request"


class RequestTimeout(InterlockError):
    code = "request_timeout"


class HeadTooLarge(InterlockError):
    code = "head_too_large"


class Overloaded(InterlockError):
    """The server has as many connections as it takes."""

    code = "overloaded"


class TokensNeeded(InterlockError):
    code = "tokens_needed"

    def __init__(self, address: str) -> None:
        super().__init__(
            f"http: {address!r} can be reached from other machines, so tokens must be configured first "
            f"('tokens' in interlock.yaml), or listen on 127.0.0.1"
        )


class PortTaken(InterlockError):
    code = "port_taken"

    def __init__(self, address: str) -> None:
        super().__init__(
            f"http: {address} is taken by another program; choose another with --http, or turn it off with --http off"
        )


class BadConfig(InterlockError):
    """A settings file that cannot be read, or a setting that does not exist; or files with documents that have faults,
    which are told one on a line when there are several."""

    code = "bad_config"


class LeaseLost(InterlockError):
    code = "lease_lost"

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"lease {name!r}: {why}")


class StaleEpoch(InterlockError):
    """A write carried an epoch older than the store knows: its writer is no longer the owner."""

    code = "stale_epoch"

    def __init__(self, name: str, epoch: int, current: int) -> None:
        super().__init__(f"lease {name!r}: epoch {epoch} is over, the current one is {current}")


class RunEnded(InterlockError):
    """`result()` of a run that did not succeed."""

    code = "run_not_succeeded"

    def __init__(self, run_id: str, state: str, reason: str) -> None:
        super().__init__(f"run {run_id} ended as {state}: {reason}")
        self.run_id, self.state, self.reason = run_id, state, reason


class WaitTimeout(InterlockError):
    """The run did not end within the time the caller was willing to wait; the run itself goes on."""

    code = "wait_timeout"

    def __init__(self, run_id: str, seconds: float) -> None:
        super().__init__(f"run {run_id} has not ended within {seconds:g}s; it goes on")


class NotConnected(InterlockError):
    code = "not_connected"

    def __init__(self) -> None:
        super().__init__("the app is not connected: use 'async with app.running():' or 'async with app.connected():'")


class Fatal(InterlockError):
    """Raised by a handler: this failure is final, do not retry."""

    code = "fatal"


class CannotStart(InterlockError):
    """A child of a supervisor could not be started."""

    code = "cannot_start"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: could not be started ({why})")
        self.path, self.why = path, why


class UnknownChild(InterlockError):
    code = "unknown_child"

    def __init__(self, path: str, suggestion: str = "") -> None:
        super().__init__(f"name: there is no {shown(path)} in the tree{suggestion}")


class DuplicateChild(InterlockError):
    code = "duplicate_child"

    def __init__(self, name: str, supervisor: str) -> None:
        super().__init__(f"name: {supervisor} has a child {shown(name)} already")


class WrongStatus(InterlockError):
    """What was asked for is not possible as things stand."""

    code = "wrong_status"


class NoContainerEngine(InterlockError):
    code = "no_container_engine"


class NeedsLinux(InterlockError):
    code = "needs_linux"

    def __init__(self, platform: str) -> None:
        super().__init__(
            f"platform: {platform!r} cannot run schedulers and workers, which need Linux; "
            "connect to a server elsewhere with interlock.Client or INTERLOCK_URL"
        )
