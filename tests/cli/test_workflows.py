"""Workflow runs over HTTP and on the command line: their list, their steps, their tree and their picture."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from interlock.cli.draw.flow_chart import layers_of, marks
from interlock.interface.step_view import StepGraph
from interlock.model.workflow import OnError, Workflow
from tests.cli.asking import ask, printed, refused, rows
from tests.cli.conftest import served
from tests.cli.terminal import Terminal, in_a_terminal
from tests.core.flows import step
from tests.helpers.processes import wait_until
from tests.helpers.server import Server

DOCUMENTS = """\
kind: Workflow
id: build
steps:
- {id: fetch, run: {shell: 'echo [1, 2] > "$INTERLOCK_RESULT"'}}
- {id: test, run: {shell: 'cat > /dev/null'}, for_each: "${steps.fetch.result}", with: {number: "${item}"}}
- {id: lint, run: {shell: 'exit 3'}, needs: [fetch], on_error: {step: mend, then: continue}}
- {id: mend, run: {shell: 'true'}}
- {id: ship, run: {shell: 'true'}, needs: [test, lint]}
---
kind: Workflow
id: naps
steps: [{id: nap, sleep: 1h}]
---
kind: Workflow
id: checks
steps:
- id: all
  parallel:
  - {id: slow, sleep: 1h}
  - - {id: first, run: {shell: 'echo 1 > "$INTERLOCK_RESULT"'}}
    - {id: second, run: {shell: 'exit 4'}, with: {number: "${steps.first.result}"}}
    - {id: third, run: {shell: 'true'}}
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    def files(place: Path) -> Path:
        (place / "flows.yaml").write_text(DOCUMENTS)
        return place / "flows.yaml"

    with served("--workers", "1", files=files) as server:
        yield server


@pytest.fixture(scope="module")
def build(server: Server) -> str:
    run_id = rows(server, "submit", "build")[0][0]
    assert ask(server, "show", run_id, "--wait").returncode == 0
    return run_id


def steps(server: Server, run_id: str, query: str = "") -> dict[str, Any]:
    found: dict[str, Any] = server.local.get(f"/api/v1/runs/{run_id}/steps{query}").json
    return found


@pytest.mark.behaviour("WFL-7")
def test_steps_come_in_the_order_in_which_they_began(server: Server, build: str) -> None:
    found = steps(server, build)
    names = [step["id"].removeprefix(build) for step in found["steps"]]
    assert [step["facets"]["step"]["number"] for step in found["steps"]] == [0, 1, 2, 3, 4]
    assert (names[0], set(names[1:3]), names[3:]) == ("@fetch", {"@test", "@lint"}, ["@mend", "@ship"])
    assert found["graph"] == {
        "needs": {"fetch": [], "test": ["fetch"], "lint": ["fetch"], "ship": ["test", "lint"]},
        "on_error": {"mend": ["lint"]},
        "inside": {},
    }
    first = steps(server, build, "?limit=3")
    second = steps(server, build, f"?limit=3&cursor={first['next']}")
    assert [*first["steps"], *second["steps"]] == found["steps"]
    assert second["next"] is None
    assert [step["id"] for step in steps(server, f"{build}@test")["steps"]] == [f"{build}@test.0", f"{build}@test.1"]
    assert steps(server, f"{build}@ship") == {"steps": [], "graph": None, "next": None}


@pytest.mark.behaviour("WFL-7")
def test_steps_are_listed_if_somebody_asks(server: Server, build: str) -> None:
    def listed(*options: str) -> set[str]:
        return {row[0] for row in rows(server, "runs", *options)}

    assert build in listed()
    assert not any("@" in run for run in listed())
    assert {build, f"{build}@fetch", f"{build}@test.1"} <= listed("--steps")
    assert listed("--parent", f"{build}@test") == {f"{build}@test.0", f"{build}@test.1"}


@pytest.mark.behaviour("WFL-7")
def test_a_run_is_shown_as_a_tree_with_times(server: Server, build: str) -> None:
    lines = [line for line in rows(server, "show", build) if line[0] == "step"]
    assert {line[1].removeprefix(build): line[3] for line in lines} == {
        "@fetch": "succeeded", "@test": "succeeded", "@test.0": "succeeded", "@test.1": "succeeded", "@lint": "failed",
        "@mend": "succeeded", "@ship": "succeeded",
    }  # fmt: skip
    after = {line[1].removeprefix(build): float(line[4]) for line in lines}
    assert 0 <= after["@fetch"] <= after["@test"] <= after["@ship"] < 60
    drawn = Terminal.plain(in_a_terminal(server.folder, "show", build, COLUMNS="100", NO_COLOR="1"))
    assert "│  ├─ 0" in drawn
    assert "└─ ship" in drawn


@pytest.mark.behaviour("WFL-7")
def test_a_picture_has_each_step_in_the_graph_and_in_time(server: Server, build: str) -> None:
    picture = server.folder / "build.svg"
    assert ask(server, "show", build, "--svg", str(picture)).returncode == 0
    drawn = ElementTree.parse(picture).getroot()
    texts = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert all(texts.count(name) == 2 for name in ("fetch", "test", "lint", "mend", "ship"))
    assert texts.count("build") == 1
    kinds = [path.get("class") for path in drawn.iter("{http://www.w3.org/2000/svg}path") if "C" in path.get("d", "")]
    assert sorted(map(str, kinds)) == ["change", "day", "day", "day", "day"], "an edge for each need and each error"


@pytest.mark.behaviour("WFL-1", "WFL-2", "WFL-7")
def test_branches_are_shown_and_drawn_and_a_run_that_has_ended_does_not_say_how_it_is_to_end(server: Server) -> None:
    run_id = rows(server, "submit", "checks")[0][0]
    assert ask(server, "show", run_id, "--wait").returncode == 5
    lines = rows(server, "show", run_id)
    assert {line[1].removeprefix(run_id): line[3] for line in lines if line[0] == "step"} == {
        "@all": "failed", "@slow": "cancelled", "@first": "succeeded", "@second": "failed", "@third": "skipped"
    }  # fmt: skip
    assert not [line for line in lines if "closing" in "".join(line)]
    graph = steps(server, run_id)["graph"]
    assert graph["inside"] == {"all": ["slow", "first", "second", "third"]}
    picture = server.folder / "checks.svg"
    assert ask(server, "show", run_id, "--svg", str(picture)).returncode == 0
    drawn = ElementTree.parse(picture).getroot()
    edges = [path for path in drawn.iter("{http://www.w3.org/2000/svg}path") if "C" in path.get("d", "")]
    assert len(edges) == 4
    names = [text for text in drawn.iter("{http://www.w3.org/2000/svg}text") if text.find("*") is not None]
    places = {str(text.text): float(text.get("x", 0)) for text in names}
    assert places["all"] < places["slow"] == places["first"] == places["third"]
    drawing = Terminal.plain(in_a_terminal(server.folder, "show", run_id, COLUMNS="100", NO_COLOR="1"))
    tree = [re.match("[ │├└─]+ [a-z]+", line) for line in drawing.splitlines() if "─ " in line]
    assert [str(found and found[0]) for found in tree] == [
        "└─ all", "   ├─ slow", "   ├─ first", "   ├─ second", "   └─ third"
    ]  # fmt: skip
    shown = printed(server, "show", run_id, "--json")
    assert (len(shown["steps"]), "above" in shown) == (5, False)


def test_what_cannot_be_drawn(server: Server, build: str) -> None:
    refused(server, "show", f"{build}@ship", "--svg", "x.svg", exit_code=2, says="has no steps", code="bad_value")
    refused(server, "show", build, "--svg", "/nowhere/x.svg", exit_code=2, says="--svg:", code="bad_value")


@pytest.mark.behaviour("WFL-7")
def test_runs_under_way_say_what_they_wait_for(server: Server, build: str) -> None:
    run_id = rows(server, "submit", "naps")[0][0]

    def listed(*options: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = printed(server, "workflows", *options, "--json")["workflows"]
        return found

    wait_until(lambda: [one["live"] for one in listed()] == [1], "it waits")
    (found,) = listed("--job", "naps", "--status", "waiting")
    assert (found["run_id"], found["status"], found["ended"]) == (run_id, "waiting", 0)
    assert found["waits_for"] == "waits for step nap (under_way)"
    drawn = Terminal.plain(in_a_terminal(server.folder, "workflows", COLUMNS="80", NO_COLOR="1"))
    assert "waits for step nap" in drawn
    assert ask(server, "cancel", run_id).returncode == 0
    wait_until(lambda: listed() == [], "it has ended")
    assert "no workflow is under way" in in_a_terminal(server.folder, "workflows")


@pytest.mark.behaviour("WFL-7", "RUN-23")
def test_a_run_begins_again_with_a_step(server: Server, build: str) -> None:
    (again, old), *more = rows(server, "retry", build, "--from", "ship")
    assert (old, more) == (build, [])
    assert ask(server, "show", again, "--wait").returncode == 0
    jobs = {step["id"].removeprefix(again): step["job_id"] for step in steps(server, again)["steps"]}
    assert jobs.pop("@ship") == "build.ship"
    assert jobs == dict.fromkeys(["@fetch", "@test", "@lint", "@mend"], "interlock.taken_over")
    answer = server.local.post(f"/api/v1/runs/{build}/retry", {"from": "mend"})
    assert (answer.status, answer.json["detail"].partition(";")[0]) == (400, "from: 'mend' runs only after an error")
    answer = server.local.post(f"/api/v1/runs/{build}/cancel", {"from": "ship"})
    assert (answer.status, answer.code) == (400, "unknown_field")
    refused(server, "retry", build, "--from", "shop", exit_code=2, says="did you mean 'ship'?", code="bad_value")
    refused(
        server, "retry", "--all", "--from", "ship", exit_code=2, says="--from: name the runs to retry", code="usage"
    )


def test_columns_of_a_graph() -> None:
    needs = {"a": [], "b": ["a"], "c": ["b", "a"], "d": ["a"]}
    graph = StepGraph(needs=needs, on_error={"mend": ["b", "d"]}, inside={})
    assert layers_of(graph) == [["a"], ["b", "d"], ["c", "mend"]]
    assert layers_of(StepGraph(needs={}, on_error={}, inside={})) == []


def test_columns_of_branches() -> None:
    inner = step("q", parallel=[step("e"), step("f")])
    branches = [step("b", on_error=OnError(step="mend")), step("c"), step("mend")], step("d"), inner
    graph = StepGraph.of(Workflow(steps=(step("a"), step("p", parallel=branches), step("z"))))
    assert graph.around == dict.fromkeys(("b", "c", "mend", "d", "q"), "p") | dict.fromkeys(("e", "f"), "q")
    assert layers_of(graph) == [["a"], ["p"], ["b", "d", "q"], ["c", "e", "f", "mend"], ["z"]]
    assert sorted(graph.follows["z"]) == ["c", "d", "e", "f"]


@pytest.mark.parametrize(
    ("length", "most", "expected"),
    [(10.0, 5, [0, 2, 4, 6, 8, 10]), (0.05, 5, [0, 0.01, 0.02, 0.03, 0.04, 0.05]), (3 * 86400, 2, [0, 2 * 86400])],
)
def test_marks_of_time_are_round(length: float, most: int, expected: list[float]) -> None:
    assert marks(length, most) == pytest.approx(expected)
