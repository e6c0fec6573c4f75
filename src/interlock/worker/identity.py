"""Worker ids of the form `name-pid-host.start`, which tell one process from every other.

A scheduler on the same host, in the same boot and pid namespace, knows from a stored id alone whether that very process
still lives. On another host only the heartbeat tells. The scheduler puts `token:` before the id of a worker that came
over TLS: only its token vouches for what the id says.
"""

import os
import re
from functools import cache
from hashlib import sha256
from pathlib import Path
from random import SystemRandom

from interlock.supervision.lineage import NOT_YET, facts, start

_ID = re.compile(r"[^:]+-([0-9]{1,10})-([0-9a-f]{8})\.([0-9a-f]{1,16})")


def worker_id(name: str, pid: int) -> str:
    host, started = _host(), start(facts(pid))
    if not host or started == NOT_YET:
        return f"{name}-{pid}-{SystemRandom().getrandbits(16):04x}"
    return f"{name}-{pid}-{host}.{started:x}"


def process_of(worker_id: str) -> int | None:
    """Return the pid that an id names, if it is of this host; 0 if another process has that pid by now."""
    found = _ID.fullmatch(worker_id)
    if found is None or found[2] != _host():
        return None
    pid = int(found[1])
    # A process whose start cannot be read may be the one.
    return pid if start(facts(pid)) in (int(found[3], 16), NOT_YET) else 0


@cache
def _host() -> str:
    """Name this boot and pid namespace; empty where /proc does not show the own namespace."""
    try:
        if os.readlink("/proc/self") != str(os.getpid()):
            return ""
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return ""
    return sha256(f"{boot} {namespace}".encode()).hexdigest()[:8]
