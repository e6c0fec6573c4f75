"""The URL of a database on a server."""

import os
import re
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec

from interlock.error import CannotOpenDatabase, shown
from interlock.fields.sockets import is_loopback, without_password

SCHEMA = "interlock"
_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_OPTIONS = (
    "host", "passfile", "password", "pooler", "port", "schema", "sslcert", "sslcrl", "sslkey", "sslmode", "sslrootcert",
    "target_session_attrs", "user",
)  # fmt: skip
_FILES = ("passfile", "sslcert", "sslcrl", "sslkey", "sslrootcert")
_POOLER = "transaction"
_NAME = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")


class Address(msgspec.Struct, frozen=True):
    url: str  # without the schema; may hold the password
    shown: str
    schema: str
    needs_tls: bool
    has_several: bool  # whether it names several servers, of which one is the primary
    has_pooler: bool  # whether a transaction is all that stays on one connection with the server

    def __repr__(self) -> str:
        return f"Address({self.shown!r})"

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of `asyncpg.connect` that say where and as whom."""
        given: dict[str, Any] = {"dsn": self.url}
        if self.needs_tls:
            given["ssl"] = "require"
        if self.has_several:
            given["target_session_attrs"] = "read-write"
        if self.has_pooler:
            given["statement_cache_size"] = 0
        return given


def read_address(url: str) -> Address:
    try:
        parts = urlsplit(url)
        parts.port if "," not in parts.netloc else None  # noqa: B018 - raises if it is no number
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError:
        # Its message would show what stands where the port should be: mostly the rest of a password.
        why = "its URL cannot be read; write postgresql://USER@HOST:PORT/DATABASE, with %xx for special characters"
        raise CannotOpenDatabase("postgresql://…", why) from None
    visible = without_password(url)
    if parts.scheme not in ("postgresql", "postgres"):
        raise CannotOpenDatabase(visible, f"{shown(parts.scheme)} is no kind of database; use postgresql://…")
    for name, value in options.items():
        if name not in _OPTIONS:
            raise CannotOpenDatabase(visible, f"{shown(name)} is no option of its URL; use {', '.join(_OPTIONS)}")
        if not value:
            raise CannotOpenDatabase(visible, f"{name} has no value in its URL")
        if name in _FILES and not os.path.isfile(value):
            raise CannotOpenDatabase(visible, f"{name}: there is no file {shown(value)}")
    if options.get("sslmode", "prefer") not in _MODES:
        raise CannotOpenDatabase(visible, f"sslmode: {shown(options['sslmode'])} is not one of {', '.join(_MODES)}")
    pooler = options.pop("pooler", None)
    if pooler not in (None, _POOLER):
        raise CannotOpenDatabase(visible, f"pooler: {shown(pooler)} is not {_POOLER}; leave it out for all others")
    schema = options.pop("schema", SCHEMA)
    if not _NAME.fullmatch(schema):
        why = "is no name of a schema; use up to 63 lower-case letters, digits and underscores, not pg_ first"
        raise CannotOpenDatabase(visible, f"schema: {shown(schema)} {why}")
    servers = (options.get("host") or parts.netloc.rpartition("@")[2] or os.environ.get("PGHOST") or "/").split(",")
    is_remote = any(not server.startswith(("/", "%2F")) and not is_loopback(_host(server)) for server in servers)
    has_mode = "sslmode" in options or "PGSSLMODE" in os.environ
    plain = parts._replace(query=urlencode(options)).geturl()
    # An empty host is left out by `geturl`.
    plain = plain if "//" in plain else plain.replace(":", "://", 1)
    has_choice = len(servers) > 1 and "target_session_attrs" not in options
    return Address(plain, visible, schema, is_remote and not has_mode, has_choice, pooler is not None)


def _host(server: str) -> str:
    if server.startswith("["):
        return server[1:].partition("]")[0]
    return server.partition(":")[0]
