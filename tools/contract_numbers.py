"""Break the contract on purpose, one number at a time, and list what no test notices.

`python -m tools.contract_numbers` changes a copy of the source tree and runs the tests that carry the behaviour. One of
them must fail, and pass again without the change. With ids (`REC-1 POL-10`) it makes only their changes. It ends with
exit code 1 if a change stays unnoticed, or if its text is not in the source exactly once.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from compileall import compile_dir
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
CODE = ROOT / "src" / "interlock"
BEHAVIOUR = "CONTRACT_BEHAVIOUR"  # the variable by which `only_of_behaviour` knows the id
SLOW = ("crash", "chaos", "process", "services", "cli", "docs", "api", "remote", "client", "simulation")
PARTS = ("src", "tests", "soak", "examples", "tools", "bench", "docs")


class Change(NamedTuple):
    behaviour: str
    file: str  # below src/interlock
    text: str  # is in the file exactly once
    changed: str


CHANGES = (
    Change("RUN-6", "config/settings.py", "30 * 86400.0", "29 * 86400.0"),
    Change("RUN-11", "model/job.py", "Span()\n    ] = 10.0", "Span()\n    ] = 9.0"),
    Change("RUN-11", "app.py", "grace: Duration = 10.0", "grace: Duration = 9.0"),
    Change("WFL-13", "model/workflow.py", "MOST_ITEMS = 1000", "MOST_ITEMS = 1001"),
    Change("WFL-13", "model/workflow.py", "MOST_LEVELS = 16", "MOST_LEVELS = 17"),
    Change("WFL-13", "model/workflow.py", "MOST_STEPS = 200", "MOST_STEPS = 201"),
    Change("WFL-2", "model/workflow.py", "MOST_ITEMS)] = 100", "MOST_ITEMS)] = 101"),
    Change("RUN-19", "engine/logs.py", 'logger.warning("run violates', 'logger.info("run violates'),
    Change("RUN-19", "engine/logs.py", 'logger.error("run ended', 'logger.warning("run ended'),
    Change("RUN-19", "engine/logs.py", 'logger.info("%s →', 'logger.debug("%s →'),
    Change("RUN-19", "engine/logs.py", 'logger.debug("heartbeat', 'logger.info("heartbeat'),
    Change("TIM-9", "model/schedule/schedule.py", 'still runs.")] = 60.0', 'still runs.")] = 61.0'),
    Change("TIM-9", "model/schedule/schedule.py", "Whole(0, MOST_CATCH_UP)] = 100", "Whole(0, MOST_CATCH_UP)] = 101"),
    Change("TIM-16", "interface/job_operations.py", "le=200)] = 20", "le=200)] = 21"),
    Change("TIM-16", "api/jobs.py", "LONGEST_OUTPUT = 16 * 1024", "LONGEST_OUTPUT = 17 * 1024"),
    Change("LAN-1", "core/state.py", '"main": 30', '"main": 31'),
    Change("LAN-1", "core/state.py", '"subagent": 50', '"subagent": 51'),
    Change("LAN-1", "core/state.py", '"team": 100', '"team": 101'),
    Change("LAN-1", "core/state.py", '"cron": 30', '"cron": 31'),
    Change("SES-1", "model/session.py", 'at once."), Whole(1)] = 1', 'at once."), Whole(1)] = 2'),
    Change("SES-3", "model/session.py", "Whole(1)] = 10", "Whole(1)] = 11"),
    Change("SES-4", "model/session.py", "] = 0.8", "] = 0.9"),
    Change("SES-8", "core/sessions/session.py", "BUSY = 0.6", "BUSY = 0.61"),
    Change("CON-9", "model/guard.py", "DEEPEST = 16", "DEEPEST = 17"),
    Change("RET-1", "model/job.py", "RETRIES_OF_SCHEDULED = 3", "RETRIES_OF_SCHEDULED = 4"),
    Change("RET-1", "model/retry.py", '"First delay."), Span()] = 2.0', '"First delay."), Span()] = 3.0'),
    Change("RET-1", "model/retry.py", "Number(1, 1000)] = 2.0", "Number(1, 1000)] = 3.0"),
    Change("RET-1", "model/retry.py", '"Longest delay."), Span()] = 30.0', '"Longest delay."), Span()] = 31.0'),
    Change("RET-1", "model/retry.py", "Number(0, 1)] = 0.25", "Number(0, 1)] = 0.3"),
    Change("RET-5", "model/job.py", "Whole(0)] = 3", "Whole(0)] = 4"),
    Change("RET-5", "app.py", "max_crashes: int = 3", "max_crashes: int = 4"),
    Change("LIV-1", "config/settings.py", 'Span("1ms", "1d")] = 10.0', 'Span("1ms", "1d")] = 11.0'),
    Change("LIV-1", "worker/host.py", "heartbeat_interval: float = 10.0", "heartbeat_interval: float = 11.0"),
    Change("LIV-1", "core/state.py", "heartbeat_interval: float = 10.0", "heartbeat_interval: float = 11.0"),
    Change("LIV-2", "config/settings.py", "Whole(1, 1000)\n    ] = 3", "Whole(1, 1000)\n    ] = 4"),
    Change("LIV-2", "core/state.py", "missed_heartbeats: int = 3", "missed_heartbeats: int = 4"),
    Change("POL-5", "core/policy/judge.py", "THROTTLED = 5.0", "THROTTLED = 6.0"),
    Change("POL-8", "config/settings.py", "] = 86400.0", "] = 86399.0"),
    Change("POL-8", "core/state.py", "approval_timeout: float = 86_400.0", "approval_timeout: float = 86_401.0"),
    Change("POL-10", "wire/effect.py", "CALL = 2.0", "CALL = 3.0"),
    Change("POL-10", "policy_service/client.py", "failures=3", "failures=4"),
    Change(
        "POL-10",
        "policy_service/client.py",
        "(failures=3, pause=30.0, longest_pause=30.0",
        "(failures=3, pause=31.0, longest_pause=31.0",
    ),
    Change("POL-10", "policy_service/client.py", "probes=3", "probes=4"),
    Change("POL-10", "policy_service/client.py", "successes=2", "successes=3"),
    Change("OUT-3", "model/policy/output.py", 'Span("100ms", "30s")] = 30.0', 'Span("100ms", "30s")] = 29.0'),
    Change("OUT-3", "model/policy/output.py", 'Span("100ms", "30s")', 'Span("100ms", "31s")'),
    Change("ROU-5", "core/routing/roster.py", "(self.cpu + self.gpu) / 100", "(self.cpu + self.gpu) / 101"),
    Change("ROU-6", "core/routing/roster.py", "self.slots * 9", "self.slots * 8"),
    Change("ROU-6", "core/routing/roster.py", "self.slots >= 10", "self.slots >= 11"),
    Change("ROU-6", "model/pool.py", "] = 90", "] = 91"),
    Change("ROU-7", "core/routing/dispatch.py", "LONGEST_PAUSE = 30.0", "LONGEST_PAUSE = 31.0"),
    Change("ROU-7", "core/routing/dispatch.py", "p.rng.random() / 2", "p.rng.random() / 3"),
    Change("ROU-7", "core/routing/dispatch.py", "2.0 ** (len(demand.tries) - 1)", "2.1 ** (len(demand.tries) - 1)"),
    Change("ROU-7", "core/routing/roster.py", "MOST_TRIES = 50", "MOST_TRIES = 51"),
    Change("ROU-9", "engine/engine.py", "self.inbox.post(worker_id, gone)", "del gone"),
    Change("ROU-9", "core/attempts/liveness.py", 'give_back(p, attempt, "never reached its worker")', "pass"),
    Change("ROU-10", "core/state.py", "missed_heartbeats: int = 3", "missed_heartbeats: int = 4"),
    Change("ROU-11", "core/routing/warm_start.py", "EVERY = 5.0", "EVERY = 6.0"),
    Change("REC-1", "config/settings.py", 'Span("100ms", "1d")\n    ] = 30.0', 'Span("100ms", "1d")\n    ] = 31.0'),
    Change("REC-1", "engine/sweeper.py", "PAGE = 200", "PAGE = 201"),
    Change("REC-1", "engine/sweeper.py", "MOST_PAGES = 100", "MOST_PAGES = 101"),
    Change("REC-1", "core/recovery/sweep.py", "MOST_TRIES = 3", "MOST_TRIES = 4"),
    Change("REC-2", "core/recovery/sweep.py", "PATIENCE = 120.0", "PATIENCE = 121.0"),
    Change("LEA-1", "engine/engine.py", "lease_ttl: float = 10.0", "lease_ttl: float = 11.0"),
    Change("LEA-1", "engine/ownership.py", "self._ttl / 3\n        limit", "self._ttl / 2\n        limit"),
    Change(
        "LEA-5",
        "engine/ownership.py",
        "self.ends_at = asked.elapsed + self._ttl",
        "self.ends_at = asked.elapsed + 2 * self._ttl",
    ),
    Change("LEA-2", "engine/ownership.py", "MOST_FAILURES = 3", "MOST_FAILURES = 4"),
    Change("SUP-4", "supervision/spec.py", "MOST_JITTER = 0.1", "MOST_JITTER = 0.2"),
    Change("SUP-7", "supervision/instance.py", "return -1 if", "return -2 if"),
    Change("SEC-1", "buses/listener.py", "0o600", "0o666"),
    Change(
        "SEC-4", "stores/sqlite/database.py", "descriptor, 0o600)\n        except", "descriptor, 0o644)\n        except"
    ),
    Change("SEC-4", "stores/sqlite/database.py", "os.chmod(name, 0o600)", "os.chmod(name, 0o640)"),
    Change("REC-7", "stores/sqlite/backup.py", "O_NOFOLLOW, 0o600)", "O_NOFOLLOW, 0o644)"),
    Change(
        "SEC-5",
        "api/runs.py",
        "mask(_json(run.payload), await self._secrets_of(run), self._secret_names)",
        "_json(run.payload)",
    ),
    Change("SEC-5", "worker/attempt_end.py", "text = context.redact(clean(", "text = str(clean("),
    Change("SEC-5", "worker/process_log.py", "level, self._redact(line), stream", "level, line, stream"),
    Change("SEC-5", "fields/secret.py", '"token"', '"tokan"'),
    Change("SEC-5", "fields/secret.py", '"password"', '"passwort"'),
    Change("SEC-5", "fields/secret.py", '"api_key"', '"api_kee"'),
)


def faults(changes: tuple[Change, ...] = CHANGES) -> list[str]:
    """Return the changes that cannot be made any more, each with the reason."""
    known = set(re.findall(r"^\| ([A-Z]{3}-\d+) \|", (ROOT / "docs" / "behaviours.md").read_text(), re.M))
    found = []
    for change in changes:
        times = (CODE / change.file).read_text().count(change.text) if (CODE / change.file).is_file() else 0
        if times != 1 or change.behaviour not in known or change.text == change.changed:
            found.append(f"{_name(change)}: the text is there {times} times; known: {change.behaviour in known}")
    return found


def _name(change: Change) -> str:
    return f"{change.behaviour} {change.file} {change.text.strip()!r} → {change.changed.strip()!r}"


def files_of(behaviour: str) -> tuple[list[str], list[str]]:
    """Return the test files that name a behaviour, quick and slow ones."""
    files = [path for path in (ROOT / "tests").rglob("test_*.py") if f'"{behaviour}"' in path.read_text()]
    found: tuple[list[str], list[str]] = [], []
    for path in sorted(file.relative_to(ROOT) for file in files):
        found[path.parts[1] in SLOW].append(str(path))
    return found


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """As a plugin of pytest, leave out the tests that do not carry the behaviour."""
    wanted = os.environ[BEHAVIOUR]
    items[:] = [item for item in items if any(wanted in mark.args for mark in item.iter_markers("behaviour"))]


def failed_test(copy: Path, behaviour: str, tests: list[str]) -> str | None:
    """Run the tests of a behaviour in the copy until one fails; return its id, or None if none fails."""
    if not tests:
        return None
    words = ["-x", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-p", "tools.contract_numbers"]
    own = {"PYTHONPATH": f"{copy / 'src'}:{copy}", "PYTHONDONTWRITEBYTECODE": "1", BEHAVIOUR: behaviour}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, *tests], cwd=copy, env=os.environ | own,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    match = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.M)
    if match is None and done.returncode not in (0, 5):
        raise SystemExit(f"pytest failed in another way:\n{done.stdout}{done.stderr}")
    return None if match is None else match[1]


def unnoticed(changes: list[Change]) -> Iterator[Change]:
    """Make one change after the other, and yield those that no test of their behaviour notices."""
    with tempfile.TemporaryDirectory(prefix="contract-") as folder:
        copy = Path(folder)
        for part in PARTS:
            shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        for path in [*ROOT.glob("*.md"), *ROOT.glob("*.toml"), *ROOT.glob("*.lock"), ROOT / "Makefile"]:
            shutil.copy(path, copy)
        # Compiled by content: a change within a second, of the same length, must count.
        compile_dir(copy, quiet=1, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
        for change in changes:
            path = copy / "src" / "interlock" / change.file
            before = path.read_text()
            path.write_text(before.replace(change.text, change.changed))
            quick, slow = files_of(change.behaviour)
            failed = failed_test(copy, change.behaviour, quick) or failed_test(copy, change.behaviour, slow)
            path.write_text(before)
            # A test that fails without the change as well proves nothing.
            if failed is not None and failed_test(copy, change.behaviour, [failed]) is not None:
                failed = None
            sys.stdout.write(f"{_name(change)}: {failed or 'NOT NOTICED'}\n")
            sys.stdout.flush()
            if failed is None:
                yield change


def main(*ids: str) -> int:
    if found := faults():
        sys.stdout.write("\n".join([*found, ""]))
        return 1
    return 1 if list(unnoticed([one for one in CHANGES if not ids or one.behaviour in ids])) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
