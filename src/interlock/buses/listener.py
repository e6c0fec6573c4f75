"""Listening sockets: only one program has each, and one left by a dead program is replaced."""

import errno
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

from interlock.error import CannotListen, PortTaken, SocketInUse

LONGEST_PATH = 107
BACKLOG = 4096


def bind_unix(path: Path) -> socket.socket:
    """Return a listening Unix socket that only its owner can open."""
    name = str(path)
    if len(os.fsencode(name)) > LONGEST_PATH:
        raise CannotListen(name, f"a socket's path has at most {LONGEST_PATH} bytes; choose another with --socket")
    _clear_leftover(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(name)
        # Before it listens, so that nobody can connect in between.
        os.chmod(name, 0o600)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise CannotListen(name, error.strerror or str(error)) from error
    listener.setblocking(False)
    return listener


def _clear_leftover(path: Path) -> None:
    """Remove the socket of a dead scheduler; refuse one in use, and any file that is not a socket."""
    name = str(path)
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise CannotListen(name, error.strerror or str(error)) from error
    if not stat.S_ISSOCK(mode):
        raise SocketInUse(name, "a file that is not a socket")
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    probe.settimeout(1.0)
    try:
        probe.connect(name)
    except OSError as error:
        if error.errno not in (errno.ECONNREFUSED, errno.ENOENT):
            raise SocketInUse(name, error.strerror or str(error)) from error
        with suppress(FileNotFoundError):
            path.unlink()
    else:
        raise SocketInUse(name, "another scheduler listens on it")
    finally:
        probe.close()


def bind_tcp(host: str, port: int, setting: str = "http") -> socket.socket:
    """Return a listening TCP socket; port 0 takes a free one. `setting` gave the address."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise CannotListen(f"{host}:{port}", error.strerror or str(error)) from error
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(f"{host}:{port}", setting) from error
        raise CannotListen(f"{host}:{port}", error.strerror or str(error)) from error
    listener.setblocking(False)
    return listener
