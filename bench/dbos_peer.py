"""DBOS on SQLite as it comes: a workflow of ten steps that do nothing, in a process of its own."""

import json
import subprocess
import sys
import time
from pathlib import Path

PACKAGE = "dbos"
CHAINS, AT_ONCE, STEPS = 30, 100, 10
LIMIT = 300.0


def measure(folder: Path) -> dict[str, float]:
    """Return steps a second, one workflow at a time and many at once; every workflow must have succeeded."""
    for leftover in folder.glob("dbos*"):
        leftover.unlink()
    command = [sys.executable, "-c", "from bench.dbos_peer import work; work()", str(folder / "dbos.db")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def work() -> None:
    from dbos import DBOS

    url = f"sqlite:///{sys.argv[1]}"
    DBOS(config={"name": "bench", "system_database_url": url, "log_level": "ERROR"})
    step = DBOS.step()(_noop)

    def ten_steps() -> int:
        for _ in range(STEPS):
            step()
        return STEPS

    chain = DBOS.workflow()(ten_steps)
    DBOS.launch()
    chain()  # it is warm
    begin = time.perf_counter()
    done = sum(chain() for _ in range(CHAINS))
    one = done / (time.perf_counter() - begin)
    begin = time.perf_counter()
    started = [DBOS.start_workflow(chain) for _ in range(AT_ONCE)]
    done = sum(workflow.get_result() for workflow in started)
    sys.stdout.write(json.dumps({"dbos": one, "dbos_at_once": done / (time.perf_counter() - begin)}) + "\n")
    DBOS.destroy()


def _noop() -> None:
    pass
