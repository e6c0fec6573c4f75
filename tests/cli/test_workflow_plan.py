"""`interlock workflow plan`: the real machine on virtual time, and nothing is done."""

from pathlib import Path

import pytest

from interlock.model.job import Job, Retry
from interlock.model.schedule.schedule import Schedule
from tests.cli.terminal import Terminal, in_a_terminal
from tests.helpers.places import folder
from tests.helpers.server import interlock

__all__ = ["folder"]
pytestmark = pytest.mark.behaviour("WFL-7")
DOCUMENTS = """\
kind: Workflow
id: release
schedule: {every: 1h}
steps:
- {id: list, run: {shell: "touch done"}}
- id: build
  job: build
  for_each: ${steps.list.result}
  with: {name: "${item}"}
  retry: {max_retries: 1, initial_delay: 10s, max_delay: 10s, jitter: 0}
  on_error: {step: tell, then: fail}
- {id: rest, sleep: 2d}
- {id: ship, job: ship}
- {id: tell, run: {shell: "true"}}
---
kind: Job
id: build
run: {shell: "touch done"}
---
kind: Job
id: ship
run: {shell: "touch done"}
---
kind: Policy
id: careful
rules:
- {id: ask, match: {topics: [ship]}, decision: require_approval, reason: a person looks}
- {id: rest, decision: allow}
"""


def plan(place: Path, *options: str) -> dict[str, list[str]]:
    """Fields by step; the workflow has an empty name."""
    (place / "release.yaml").write_text(DOCUMENTS)
    ended = interlock(place, "workflow", "plan", "release.yaml", *options)
    assert (ended.returncode, ended.stderr) == (0, "")
    found = {line.split("\t")[1]: line.split("\t")[2:] for line in ended.stdout.splitlines()}
    assert not (place / "done").exists(), "nothing is done"
    return found


def test_steps_with_their_times_and_verdicts(folder: Path) -> None:
    found = plan(folder, "--result", 'list=["a", "b"]', "--duration", "5s", "--duration", "build.1=30s")
    day = 86400
    assert found[""][:4] == ["release", "succeeded", "0.000", f"{2 * day + 40:.3f}"]
    assert found["build.0"][:5] == ["build", "succeeded", "5.000", "5.000", "allow: rest"]
    assert found["build.1"][3] == "30.000"
    assert found["rest"][1:4] == ["succeeded", "35.000", f"{2 * day:.3f}"]
    assert found["ship"][1:5] == ["succeeded", f"{2 * day + 35:.3f}", "5.000", "require_approval: ask, assumed"]
    assert "tell" not in found


def test_a_step_that_fails_is_retried_and_its_error_followed(folder: Path) -> None:
    found = plan(folder, "--result", 'list=["a"]', "--fail", "build")
    assert found["build.0"][1] == "failed"
    assert float(found["build.0"][3]) == pytest.approx(12, abs=0.1), "a second attempt, ten seconds after the first"
    assert found["tell"][1] == "succeeded"
    assert found[""][1] == "failed"
    assert "ship" not in found


def test_a_value_that_nobody_gave(folder: Path) -> None:
    found = plan(folder)
    assert found["build"][5] == "for_each: the value is a null; it must be a list"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--fail", "shp"], "--fail: 'shp' is not a step of the workflow; did you mean 'ship'?"),
        (["--result", "list=[1"], "--result list: '[1' is not JSON"),
        (["--result", "list"], "--result: 'list' is not of the form STEP=JSON"),
        (["--duration", "ship=soon"], "--duration ship: 'soon' is not a duration"),
        (["relaese"], "job: 'relaese' is not defined; did you mean 'release'?"),
    ],
)
def test_bad_options(folder: Path, options: list[str], says: str) -> None:
    (folder / "release.yaml").write_text(DOCUMENTS)
    ended = interlock(folder, "workflow", "plan", "release.yaml", *options)
    assert ended.stdout == ""
    assert ended.stderr.startswith(f"error: {says}")


def test_a_job_without_its_schedule() -> None:
    every = Schedule(every=60.0)
    assert Job(id="a", schedule=every).unscheduled.max_retries == Job(id="a", schedule=every).max_retries == 3
    plain = Job(id="a", retry=Retry(max_retries=5))
    assert plain.unscheduled is plain


APP = """\
import interlock as il

app = il.App()


@app.job("list")
async def names() -> list[str]: ...


@app.job("build")
async def build(name: str) -> str: ...


@app.job("unbuild")
async def unbuild(result: str) -> None: ...


@app.workflow("release")
async def release(ctx: il.WorkflowContext, question: str) -> int:
    print("not in the plan")
    found = await ctx.run(names.call())
    await ctx.sleep("2d")
    built = await ctx.map(build, found, undo=unbuild)
    await ctx.approval(question, timeout="1h")
    await ctx.run(build.call("all"), name="ship")
    return len(built)


@app.workflow("endless")
async def endless(ctx: il.WorkflowContext) -> None:
    await ctx.run(unbuild.call("x"))
    await ctx.continue_as_new(endless.call())
"""


def plan_function(place: Path, *options: str) -> tuple[dict[str, list[str]], str]:
    """Fields by step, and what is said."""
    (place / "flows.py").write_text(APP)
    ended = interlock(place, "workflow", "plan", "-A", "flows:app", *options)
    assert ended.returncode == 0, ended
    return {line.split("\t")[1]: line.split("\t")[2:] for line in ended.stdout.splitlines()}, ended.stderr


RESULTS = ("--result", 'list=["a", "b"]', "--result", 'build="built"')


def test_a_function_is_asked_for_its_steps(folder: Path) -> None:
    given = ("release", "-p", "question=ship?", *RESULTS, "--result", 'ship="done"', "--duration", "build.1=3s")
    found, said = plan_function(folder, *given)
    assert said == ""
    assert {step: fields[1:4] for step, fields in found.items()} == {
        "": ["succeeded", "0.000", "172805.000"],
        "list": ["succeeded", "0.000", "1.000"],
        "sleep": ["succeeded", "1.000", "172800.000"],
        "build": ["succeeded", "172801.000", "3.000"],
        "build.0": ["succeeded", "172801.000", "1.000"],
        "build.1": ["succeeded", "172801.000", "3.000"],
        "approval": ["succeeded", "172804.000", "0.000"],
        "ship": ["succeeded", "172804.000", "1.000"],
    }
    assert found["approval"][4].endswith("assumed")


def test_a_function_whose_step_fails_rolls_back(folder: Path) -> None:
    found, said = plan_function(folder, "release", "-p", "question=ship?", *RESULTS, "--fail", "ship", "--fail", "shop")
    assert (found[""][1], found["ship"][1]) == ("failed", "failed")
    assert [step for step in found if step.startswith("comp-")] == ["comp-build.1", "comp-build.0"]
    assert said == "--fail: the function asked for no step 'shop'; did you mean 'ship'?\n"


def test_a_tree_names_compensations_of_items(folder: Path) -> None:
    (folder / "flows.py").write_text(APP)
    given = ("-A", "flows:app", "release", "-p", "question=ship?", *RESULTS, "--fail", "ship")
    drawn = Terminal.plain(in_a_terminal(folder, "workflow", "plan", *given))
    assert "├─ comp-build.1 " in drawn
    assert "│  └─ 1 " in drawn


def test_a_function_that_never_ends_is_given_up(folder: Path) -> None:
    found, _ = plan_function(folder, "endless")
    assert (found[""][1], found[""][5]) == ("failed", "plan: stopped after 2,000 turns")


def test_a_function_with_bad_arguments_is_refused(folder: Path) -> None:
    (folder / "flows.py").write_text(APP)
    ended = interlock(folder, "workflow", "plan", "-A", "flows:app", "release")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "argument 'question' is missing" in ended.stderr
