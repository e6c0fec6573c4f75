"""Makes docs/screens.md of what a terminal really shows: `python -m tests.docs.screens`."""

import sys
from collections.abc import Iterator
from pathlib import Path

import interlock as il
from interlock.cli.main import COMMANDS
from tests.cli.terminal import Terminal
from tests.docs.blocks import ROOT
from tests.docs.picture import work
from tests.helpers.places import clean_folder
from tests.helpers.processes import wait_until

DOCUMENT = ROOT / "docs" / "screens.md"
SIZES = ((80, 24), (160, 50))
DECLARED = """\
kind: Service
id: web
run: {process: [sleep, "600"]}
---
kind: Service
id: mailer
run: {process: [sh, -c, "sleep 0.5; exit 3"]}
---
kind: Job
id: backup.nightly
schedule: {cron: "0 2 * * *", tz: Europe/Paris}
run: {process: ["true"]}
---
kind: Job
id: disk.check
schedule: {every: 15m}
run: {process: ["true"]}
on_success: {action: webhook, url: "http://127.0.0.1:9/disks"}
---
kind: Job
id: invoices.monthly
schedule: {cron: "30 6 1 * *"}
run: {process: ["true"]}
---
kind: Workflow
id: media
steps:
- {id: probe, run: {process: ["true"]}}
- {id: rest, sleep: 10m}
- {id: join, run: {process: ["true"]}}
---
kind: Tenant
id: acme
max_running: 5
rate: 10/s
---
kind: Policy
id: money
default_decision: allow
rules:
- {id: payments, match: {topics: [payment]}, decision: require_approval, reason: a person agrees to each payment}
"""
OPTIONS = ("-A", "tests.docs.picture_jobs:app", "declared.yaml", "--http", "local", "--drain", "0s")
CHANGED = "changed.py"  # the app with a workflow that does not fit its runs
ARGUMENTS = {
    "next": "backup.nightly", "show": "{failed}", "explain": "{waiting}", "logs": "{synced}",
    "workflow diff": f"-A {CHANGED}:app",
}  # fmt: skip
LISTED = [*(name for name, panel in COMMANDS.items() if panel == "Look"), "dlq list", "workflow diff"]
HEAD = """# Screens

Written by `python -m tests.docs.screens` from a real server; do not edit it by hand. Each command is shown in a
terminal of 80 columns and 24 lines, and in one of 160 columns and 50 lines.
"""

Screen = tuple[str, tuple[int, int], list[str]]


def screens() -> Iterator[Screen]:
    """Command, size of the terminal, and the lines that it shows."""
    with clean_folder() as folder:
        (folder / "declared.yaml").write_text(DECLARED)
        app = (ROOT / "tests" / "docs" / "picture_jobs.py").read_text()
        (folder / CHANGED).write_text(app.replace('name="welcome"', 'name="greeting"'))
        with Terminal(folder, "up", "--db", "empty.db", "--http", "local", size=SIZES[0]) as server:
            for size in SIZES:
                server.resize(*size)
                server.wait_for_screen("interlock init")
                yield "up", size, server.screen
            server.enter("\x03")
            server.ended()
        with Terminal(folder, "up", *OPTIONS, size=SIZES[0]) as server:
            server.wait_for_screen("worker w1-", "mailer")
            with il.Client(f"unix:{folder / 'interlock.db.http'}") as client:
                known = _work(client)
                for size in SIZES:
                    server.resize(*size)
                    server.wait_for_drawings(3)
                    yield "up -A jobs:app declared.yaml", size, server.screen
                for name in LISTED:
                    command = f"{name} {ARGUMENTS.get(name, '')}".format(**known).strip()
                    for size in SIZES:
                        yield command, size, _shown(folder, command, size)
            server.enter("\x03")
            server.ended()


def _work(client: il.Client) -> dict[str, str]:
    """Make runs, sessions and approvals for every screen; return the ids of the runs to show."""
    synced = work(client)
    for cents in (1250, 99):
        waiting = client.submit("payment", {"to": "ada", "cents": cents})
    for number in range(3):
        client.submit("report.nightly", {"day": f"2026-02-0{number}"}, session="reports", tenant="acme")
    media, onboard = client.submit("media"), client.submit("onboard", {"to": "ada"})
    wait_until(lambda: "waits" in onboard.info().facets.get("workflow", {}), "a function waits for its event")
    wait_until(lambda: any(step.id.endswith("@rest") for step in client.steps(media.id)), "a workflow rests")
    wait_until(lambda: len(list(client.approvals())) == 2, "the payments wait for a person")
    failed = next(run.id for run in client.runs(job="import.csv"))
    return {"synced": synced, "failed": failed, "waiting": waiting.id}


def _shown(folder: Path, command: str, size: tuple[int, int]) -> list[str]:
    with Terminal(folder, *command.split(), size=size) as terminal:
        terminal.ended()
        return terminal.screen


def document() -> str:
    found: dict[str, list[str]] = {}
    for command, (columns, lines), screen in screens():
        name = next((name for name in LISTED if command.startswith(name)), "up")
        text = "\n".join(screen).rstrip()
        found.setdefault(name, [f"## interlock {name}\n"]).append(
            f"{columns} × {lines}:\n\n```text\n$ interlock {command}\n{text}\n```\n"
        )
    return "\n".join([HEAD, *(part for parts in found.values() for part in parts)])


if __name__ == "__main__":
    DOCUMENT.write_text(document())
    sys.stdout.write(f"wrote {DOCUMENT.relative_to(ROOT)}\n")
