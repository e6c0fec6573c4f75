"""Commands to try once `interlock up` runs; they work unchanged in another terminal, in the same folder."""

import os
import shlex
import shutil
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from interlock.config import Resolved, resolve
from interlock.error import BadPayload, InterlockError
from interlock.fields import payload
from interlock.worker.definition import Definition


def next_steps(
    resolved: Resolved,
    url: str | None,
    definitions: Mapping[str, Definition],
    submitted: Collection[str],
    has_schedules: bool,
) -> list[str]:
    """`url` is the address of HTTP over TCP; `submitted` are the jobs that already run."""
    settings = resolved.settings
    if settings.http == "off":
        return []
    us = _as_called()
    steps = [f"{us} submit {_some_job(definitions, submitted)} --wait"] if definitions else []
    steps += [f"{us} timetable"] if has_schedules else []
    steps += [f"{us} runs --watch", f"{us} show latest"]
    if url is not None and not settings.tokens:
        steps.append(f"curl '{url}/api/v1/runs?limit=3'")
    if not _found_by_itself(settings.http_socket_path()):
        steps.insert(0, f"export INTERLOCK_SOCKET={shlex.quote(_short(settings.socket_path()))}")
    return [f"{url or _short(settings.http_socket_path())} · in another terminal, in this folder, try", *steps]


def how_to_begin() -> list[str]:
    us = _as_called()
    return [
        "nothing to run yet: stop it with Ctrl-C, and begin with one of these",
        f"{us} init FOLDER         write a small project that runs",
        f"{us} up -A MODULE:APP    run the jobs of an app",
        f"{us} up FILE.yaml        run the jobs and services of a file",
    ]


def _as_called() -> str:
    """Return the command as the user called it."""
    path = Path(sys.argv[0])
    if path.name != "interlock" or shutil.which("interlock") == str(path):
        return "interlock"
    return shlex.quote(_short(path.absolute()))


def _short(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def _found_by_itself(http_socket: Path) -> bool:
    """Return whether a command in this folder finds this server without flags and variables."""
    try:
        # Another terminal does not have the variables of this process.
        plain = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
        return resolve(environment=plain).settings.http_socket_path() == http_socket
    except InterlockError:
        return False


def _some_job(definitions: Mapping[str, Definition], submitted: Collection[str]) -> str:
    others = [job_id for job_id in definitions if job_id not in submitted] or list(definitions)
    for job_id in others:
        try:
            definitions[job_id].check(payload.EMPTY)
        except BadPayload:
            continue
        return job_id
    return f"{others[0]} --payload '{{…}}'"
