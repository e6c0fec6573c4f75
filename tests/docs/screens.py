"""Makes docs/screens.md of what a terminal really shows: `python -m tests.docs.screens`."""

import sys
from collections.abc import Iterator
from pathlib import Path

import interlock as il
from tests.cli.terminal import Terminal
from tests.docs.blocks import ROOT
from tests.docs.picture import work
from tests.helpers.places import clean_folder

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
---
kind: Job
id: invoices.monthly
schedule: {cron: "30 6 1 * *"}
run: {process: ["true"]}
"""
HEAD = """# Screens

Written by `python -m tests.docs.screens` from a real server; do not edit it by hand. Each command is shown in a
terminal of 80 columns and 24 lines, and in one of 160 columns and 50 lines.
"""


def screens() -> Iterator[tuple[str, tuple[int, int], list[str]]]:
    """Command, size of the terminal, and the lines that it shows."""
    for size in SIZES:
        with clean_folder() as folder:
            (folder / "declared.yaml").write_text(DECLARED)
            options = ("-A", "tests.docs.picture_jobs:app", "declared.yaml", "--http", "local", "--drain", "0s")
            with Terminal(folder, "up", *options, size=size) as server:
                server.wait_for_screen("worker w1-", "mailer")
                with il.Client(f"unix:{folder / 'interlock.db.http'}") as client:
                    shown = work(client)
                server.wait_for_drawings(3)
                yield "up -A jobs:app declared.yaml", size, server.screen
                for command in ("runs", f"show {shown}", "tree", "timetable"):
                    yield command, size, _shown(folder, command, size)
                server.enter("\x03")
                server.ended()


def _shown(folder: Path, command: str, size: tuple[int, int]) -> list[str]:
    with Terminal(folder, *command.split(), size=size) as terminal:
        terminal.ended()
        return terminal.screen


def document() -> str:
    found: dict[str, list[str]] = {}
    for command, (columns, lines), screen in screens():
        name = command.partition(" ")[0]
        text = "\n".join(screen).rstrip()
        found.setdefault(name, [f"## interlock {name}\n"]).append(
            f"{columns} × {lines}:\n\n```text\n$ interlock {command}\n{text}\n```\n"
        )
    return "\n".join([HEAD, *(part for parts in found.values() for part in parts)])


if __name__ == "__main__":
    DOCUMENT.write_text(document())
    sys.stdout.write(f"wrote {DOCUMENT.relative_to(ROOT)}\n")
