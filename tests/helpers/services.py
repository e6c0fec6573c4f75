"""Services for a server to keep up, and ways to have them do something."""

import os
from pathlib import Path

DECLARED = """\
kind: Group
id: shop
---
kind: Service
id: talk
group: shop
run: {process: [sh, talk.sh]}
ready: {log: hello}
---
kind: Service
id: steady
run: {process: [sleep, "1000"]}
---
kind: Service
id: broken
run: {process: ["false"]}
ready: {log: never}
backoff: {initial: 1h, max: 1h}
"""
"""a group with a service that says what it is told to, one that just lives, and one that ends at once"""

TALK = "echo hello; while true; do cat words; done\n"
"""prints what is written into the pipe `words`"""


def declare(folder: Path, text: str = DECLARED) -> Path:
    """Write the file, and what its services need; returns where it is."""
    if not (folder / "words").exists():
        os.mkfifo(folder / "words")
        (folder / "talk.sh").write_text(TALK)
    path = folder / "services.yaml"
    path.write_text(text)
    return path


def say(folder: Path, text: str) -> None:
    """Have the service `talk` print something."""
    (folder / "words").write_text(text)
