"""Find the user at the other end of a TCP connection within this machine.

The kernel knows the owner of every socket, and sock_diag(7) looks up a single one by its addresses in some 20 µs,
whatever the number of sockets; /proc/net/tcp lists them all, which takes milliseconds.
"""

import os
import socket
import struct
from functools import cache
from pathlib import Path

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST = 1
_LOOPBACK_INTERFACE = 1  # also finds a socket that is bound to this interface, as that of `curl --interface lo` is
_ANY = 0xFFFFFFFF
_REQUEST = struct.Struct("=IHHII BBBxI")
_COOKIE = struct.pack("=III", _LOOPBACK_INTERFACE, _ANY, _ANY)
_HEADER = struct.Struct("=IHHII BB")
_OWNER = struct.Struct("=II")
_OWNER_AT = 16 + 4 + 48 + 12
_SIZE = 16 + 56
_CONNECTED = (1, 4, 5)
"""established, or closed for sending; not a listener on the same port, nor a connection that only begins"""


def is_own(uid: int | None) -> bool:
    """Return whether this is the user of this process, or root."""
    return uid == 0 or (uid is not None and uid == os.geteuid() and uid != _unmapped())


@cache
def _unmapped() -> int | None:
    """Return the id that a user namespace shows for users it does not map; None if it maps all of them."""
    if Path("/proc/self/uid_map").read_text().split() == ["0", "0", str(_ANY)]:
        return None
    return int(Path("/proc/sys/kernel/overflowuid").read_text())


def owner_of_peer(sock: socket.socket) -> int | None:
    """Return the user id that owns the socket at the other end; None if no process of this network namespace has it
    open."""
    try:
        (host, port, *_), (own_host, own_port, *_) = sock.getpeername(), sock.getsockname()
        ends = struct.pack(
            "!HH16s16s", port, own_port, socket.inet_pton(sock.family, host), socket.inet_pton(sock.family, own_host)
        )
        head = (_SIZE, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 0, 0, sock.family, socket.IPPROTO_TCP, 0, _ANY)
        with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_SOCK_DIAG) as link:
            link.send(_REQUEST.pack(*head) + ends + _COOKIE)
            answer = link.recv(1024, socket.MSG_DONTWAIT)
        # Had it been reset meanwhile, another connection could have got the same port.
        sock.getpeername()
    except OSError:
        return None
    _, kind, _, _, _, _, state = _HEADER.unpack_from(answer)
    if kind != _SOCK_DIAG_BY_FAMILY or state not in _CONNECTED:
        return None
    uid, inode = _OWNER.unpack_from(answer, _OWNER_AT)
    # A socket that was closed has no inode, and counts as root's in most kernels.
    return uid if inode else None
