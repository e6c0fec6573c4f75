"""A folder with an app, and a server that runs it."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interlock import Client
from tests.helpers.server import Server, interlock


class Place:
    def __init__(self, folder: Path, sources: Mapping[str, str], *options: str) -> None:
        self.folder = folder
        for name, text in sources.items():
            self.write(name, text)
        self.server = Server(folder, "--http", "local", *options, target="jobs:app")
        self.client = Client(f"unix:{folder / 'interlock.db.http'}")

    def __enter__(self) -> "Place":
        self.server.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self.client.close()
        self.server.__exit__(kind, *rest)

    def write(self, name: str, text: str) -> None:
        """As an editor does."""
        (self.folder / "new").write_text(text)
        os.replace(self.folder / "new", self.folder / name)

    def run(self, job: str) -> Any:
        return self.client.submit(job).result(timeout=30)

    def ask(self, *arguments: str) -> Any:
        """What a command prints as JSON."""
        shown = interlock(self.folder, *arguments, "--json")
        assert shown.stdout, shown.stderr
        return json.loads(shown.stdout)

    def worker(self) -> dict[str, Any]:
        groups = {one["name"]: one for one in self.ask("tree")["children"]}
        found: dict[str, Any] = groups["workers"]["children"][0]
        return found
