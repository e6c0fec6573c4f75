"""The errors of PostgreSQL and of its driver, as errors of the store."""

import asyncpg

from interlock import error as e
from interlock.ports.leases import Lease

DRIVER = (
    asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, EOFError, TimeoutError,
    ValueError,
)  # fmt: skip
"""Whatever a call of the driver raises. InternalClientError: among others, a message that the server sent unasked.
ValueError: a value that cannot be encoded, or a URL that cannot be read."""

STALE, BEHIND = "IL001", "IL002"  # of `pass_fence`
READ_ONLY = "25006"
NOT_UNDERSTOOD = "08P01"
NO_SUCH_TEXT = "22021"  # PostgreSQL keeps no NUL in a text

NO_POOLER = (
    "if a pooler is between, give the address of PostgreSQL itself; a gateway can also use the pooler: "
    "add pooler=transaction to its URL"
)
_ADVICE = {
    NOT_UNDERSTOOD: NO_POOLER,
    READ_ONLY: "it is a replica, or its connections are read-only; give the address of the primary",
    "28000": "see pg_hba.conf of the server",
    "28P01": "give the password in the URL, in the file of PGPASSFILE, or in PGPASSWORD",
    "3D000": "create it with: createdb",
    "3F000": "the schema was dropped: restore a backup, or start the scheduler to make it anew",
    "42501": "let the role create schemas in the database, or make the schema and give it to the role",
    "42883": "the schema was changed: restore a backup",
    "42P01": "the table was dropped: restore a backup",
    "53300": "raise max_connections, or end other connections",
}
"""SQLSTATE → what to do"""


def why(error: BaseException, seconds: float = 0.0) -> str:
    """Return the reason on one line, without a value of a row."""
    if isinstance(error, TimeoutError):
        return f"no answer in {seconds:g} s" if seconds else "no answer"
    if isinstance(error, asyncpg.PostgresError):
        text, advice = str(getattr(error, "message", None) or error), _ADVICE.get(error.sqlstate or "")
        return " ".join(text.split()) + (f"; {advice}" if advice else "")
    if isinstance(error, ConnectionError) and "rejected SSL" in str(error):
        return "the server offers no TLS; set it up there, or add sslmode=disable to the URL"
    if isinstance(error, OSError) and error.strerror:
        is_absent = isinstance(error, (ConnectionRefusedError, FileNotFoundError))
        return error.strerror + ("; is PostgreSQL running there?" if is_absent else "")
    return " ".join(str(error).split()) or type(error).__name__


def may_pass(error: BaseException) -> bool:
    """Whether it may be gone at the next try: the server is away or busy, and not set up differently."""
    if isinstance(error, asyncpg.PostgresError):
        state = error.sqlstate or ""
        return state[:2] in ("08", "53", "57") and state != NOT_UNDERSTOOD
    return isinstance(error, (OSError, TimeoutError))


def is_read_only(error: BaseException) -> bool:
    return isinstance(error, asyncpg.PostgresError) and error.sqlstate == READ_ONLY


def is_certain(error: BaseException) -> bool:
    """Whether a call that failed so has changed nothing. The server sends errors of this severity only for a
    transaction that it has rolled back; a fatal one may come right after the commit."""
    if isinstance(error, asyncpg.PostgresError):
        return getattr(error, "severity_en", None) == "ERROR" and error.sqlstate != "40003"
    return isinstance(error, (asyncpg.InterfaceError, ValueError))  # nothing was sent


def of_opening(error: BaseException, where: str, seconds: float) -> e.InterlockError:
    return error if isinstance(error, e.InterlockError) else e.CannotOpenDatabase(where, why(error, seconds))


def of_reading(error: BaseException, seconds: float) -> e.StoreUnavailable:
    return e.StoreUnavailable(why(error, seconds), asked=True)


def of_writing(error: BaseException, seconds: float, lease: Lease | None) -> e.InterlockError:
    if not is_certain(error):
        return e.OutcomeUnknown(why(error, seconds)) if lease else e.StoreUnavailable(why(error, seconds))
    state = getattr(error, "sqlstate", None)
    if state == STALE and lease is not None:
        return e.StaleEpoch(lease.name, lease.epoch, int(getattr(error, "detail", None) or 0))
    if state == BEHIND:
        return e.OutcomeUnknown(f"{why(error)}: the server went back to an earlier state")
    return e.StoreUnavailable(why(error, seconds))
