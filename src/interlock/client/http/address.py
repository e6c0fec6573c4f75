"""The address of the server and the token for it, from arguments or the environment."""

import os
import re
import socket
import sys
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from interlock.error import BadValue
from interlock.fields.sockets import http_socket, scheduler_socket

LOCAL_DATABASE = "interlock.db"
LONGEST_PATH = 107 if sys.platform == "linux" else 103  # bytes that a system takes for the path of a Unix socket

_HOST = re.compile(r"(?:[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.?)+|\[?[0-9A-Fa-f:.]*:[0-9A-Fa-f:.%a-z]*\]?")
_PREFIX = re.compile(r"(?:/[A-Za-z0-9_.~%-]+)*")
_TOKEN = re.compile(r"[!-~]+")
_FORMS = "of the form http://host:port, https://host:port or unix:/path"
_PORTS = {"http": 80, "https": 443}


class ServerAddress(msgspec.Struct, frozen=True):
    """A Unix socket at `path`, or else `host` and `port`."""

    shown: str  # the address as it appears in messages
    host: str = "localhost"
    port: int = 0
    secure: bool = False
    prefix: str = ""  # text before every path, where a proxy adds one
    path: str | None = None


def read_address(url: str | None, environment: Mapping[str, str] = os.environ) -> ServerAddress:
    """Return the address that `url` or else INTERLOCK_URL names; without either, the local socket that belongs to
    INTERLOCK_SOCKET or INTERLOCK_DATABASE."""
    if url is None:
        url = environment.get("INTERLOCK_URL") or None
    if url is None:
        beside = scheduler_socket(environment.get("INTERLOCK_DATABASE") or LOCAL_DATABASE)
        return _unix(http_socket(environment.get("INTERLOCK_SOCKET") or beside))
    if not isinstance(url, str):
        raise BadValue("url", url, _FORMS)
    if url.startswith("unix:"):
        return _unix(url.removeprefix("unix:").removeprefix("//"))
    return _tcp(url)


def _unix(path: str) -> ServerAddress:
    if not path or "\0" in path:
        raise BadValue("url", f"unix:{path}", _FORMS)
    if not hasattr(socket, "AF_UNIX"):
        expected = "supported by this platform, which has no Unix sockets; use http://host:port, or set INTERLOCK_URL"
        raise BadValue("url", f"unix:{path}", expected)
    # Absolute, because the program may change its folder between two requests.
    whole = os.path.abspath(path)
    if len(os.fsencode(whole)) > LONGEST_PATH:
        raise BadValue("url", f"unix:{whole}", f"a socket's path of at most {LONGEST_PATH} bytes")
    return ServerAddress(shown=f"unix:{whole}", path=whole)


def _tcp(url: str) -> ServerAddress:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise BadValue("url", _without_secrets(url), _FORMS) from None
    host, prefix = parts.hostname or "", parts.path.rstrip("/")
    if parts.username is not None or parts.password is not None:
        raise BadValue("url", _without_secrets(url), f"{_FORMS}, without user and password: the token is an option")
    fits = parts.scheme in _PORTS and url.isascii() and url.isprintable() and " " not in url
    if not fits or not _HOST.fullmatch(host) or not _PREFIX.fullmatch(prefix) or parts.query or parts.fragment:
        raise BadValue("url", _without_secrets(url), _FORMS)
    return ServerAddress(
        shown=url.rstrip("/"),
        host=host,
        port=_PORTS[parts.scheme] if port is None else port,
        secure=parts.scheme == "https",
        prefix=prefix,
    )


def _without_secrets(url: str) -> str:
    return re.sub(r"[?#].*", "?…", re.sub(r"//.*@", "//…@", url, flags=re.DOTALL), flags=re.DOTALL)


def read_token(token: str | None, address: ServerAddress, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the token to send. It is never shown, not even when it is refused."""
    if token is None:
        token = environment.get("INTERLOCK_TOKEN") or None
    if token is None:
        return None
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise BadValue("token", "…", "a text of printable ASCII characters without spaces")
    if address.path is None and not address.secure and not _is_loopback(address.host):
        import logging

        logging.getLogger("interlock.client").warning(
            "the token is sent to %s without encryption: use https, or a tunnel to 127.0.0.1", address.shown
        )
    return token


def _is_loopback(host: str) -> bool:
    from ipaddress import ip_address

    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
