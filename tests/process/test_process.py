"""How a process of Interlock loads its module and ends."""

import json
import subprocess
import sys
from pathlib import Path

from tests.helpers.server import environment

MODULE = """
import atexit, gc, json, sys
loading = gc.isenabled()

class Cycle:
    def __init__(self):
        self.itself = self
    def __del__(self):
        print("collected")

def main():
    atexit.register(print, "ended")
    print(json.dumps([loading, gc.isenabled(), gc.get_freeze_count() > 1000, sys.argv[1:], __name__]))
    Cycle()
    gc.collect()
    Cycle()
"""


def test_it_looks_for_garbage_only_between_loading_and_the_end(tmp_path: Path) -> None:
    (tmp_path / "part.py").write_text(MODULE)
    command = [sys.executable, "-m", "interlock.process", "part", "some", "arguments"]
    ended = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True)
    said, *rest = ended.stdout.splitlines()
    assert json.loads(said) == [False, True, True, ["some", "arguments"], "part"]
    assert rest == ["collected", "ended"]
