"""kill -9 in the midst of a workflow: the same outcome, the same steps, each once."""

from pathlib import Path

import pytest

import interlock as il
from interlock.model.state import State
from tests.helpers.places import lines_of, tell_to_go
from tests.helpers.processes import wait_until
from tests.helpers.server import Server

STEP = """\
run:
  shell: |
    echo $INTERLOCK_RUN_ID >> {folder}/executions
    while [ ! -e {folder}/work.go ]; do sleep 0.05; done
    echo 1 > $INTERLOCK_RESULT
"""
FLOW = """\
kind: Workflow
id: flow
steps:
- {id: a, job: work}
- {id: all, job: work, for_each: [1, 2, 3], max_parallel: 2}
- {id: nap, sleep: 100ms}
- {id: z, job: work}
result: ["${steps.a.result}", "${steps.all.result}", "${steps.z.result}"]
---
kind: Job
id: work
"""


@pytest.mark.behaviour("WFL-1", "REC-6")
@pytest.mark.parametrize("name", ["a", "all.1"])
def test_the_scheduler_dies_while_a_step_executes(folder: Path, name: str) -> None:
    (folder / "jobs.yaml").write_text(FLOW + STEP.format(folder=folder))
    server = Server(folder, str(folder / "jobs.yaml"), "--http", "local", target=None)
    try:
        server.start()
        with il.Client(f"unix:{server.http_socket}") as client:
            run_id = client.submit("flow").id
            wait_until(lambda: lines_of(folder / "executions"), "the first step executes")
            if name != "a":
                tell_to_go(folder, "work")
                wait_until(lambda: f"{run_id}@all" in {one.id for one in client.runs(root=run_id)}, "the group began")
                (folder / "work.go").unlink()
        server.kill()
        server.start()
        tell_to_go(folder, "work")
        with il.Client(f"unix:{server.http_socket}") as client:
            assert client.result(run_id, 60) == [1, [1, 1, 1], 1]
            steps = {step.id.partition("@")[2]: step for step in client.runs(root=run_id)}
            assert set(steps) == {"a", "all", "all.0", "all.1", "all.2", "nap", "z"}
            assert {step.state for step in steps.values()} == {State.SUCCEEDED}
        server.wait_for_strays()
        assert server.stop() == 0
    finally:
        server.kill()
    executed = lines_of(folder / "executions")
    assert sorted(executed) == sorted(f"{run_id}@{step}" for step in ("a", "all.0", "all.1", "all.2", "z"))
