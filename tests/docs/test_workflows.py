"""What the document on workflows shows: its example runs, well and with an item that fails."""

import shlex
from pathlib import Path
from typing import Any

import pytest

import interlock as il
from interlock.config.sources import load
from interlock.model.state import State
from interlock.model.workflow import MOST_ITEMS, MOST_LEVELS, MOST_STEPS, WorkflowStep
from tests.docs.blocks import ROOT, of_language
from tests.docs.test_approvals import TOKENS
from tests.helpers.processes import wait_until
from tests.helpers.server import Server, interlock

WORKFLOWS = "docs/workflows.md"
EXAMPLE = ROOT / "examples/media.yaml"


def test_the_example_is_the_one_of_the_document(folder: Path) -> None:
    block, *_ = of_language(WORKFLOWS, "yaml")
    steps = block.text.partition("\n")[2]
    assert steps in EXAMPLE.read_text()


def test_the_numbers_are_those_of_the_code() -> None:
    text = (ROOT / WORKFLOWS).read_text()
    for number, words in ((MOST_STEPS, "the steps, at most {}"), (MOST_LEVELS, "at most {} levels")):
        assert words.format(number) in text
    assert f"a list of at most {MOST_ITEMS:,} items" in text
    for name in (field.rstrip("_") for field in WorkflowStep.__struct_fields__):
        assert f"`{name}" in text


@pytest.mark.behaviour("WFL-1")
def test_the_commands_of_the_document(folder: Path) -> None:
    up, *commands = [shlex.split(line) for block in of_language(WORKFLOWS, "sh") for line in block.text.splitlines()]
    assert up == ["interlock", "up", "examples/media.yaml", "&"]
    with Server(folder, str(EXAMPLE), "--http", "local", target=None) as server:
        url = ("--url", f"unix:{server.http_socket}")
        printed = [interlock(folder, *command[1:], *url).stdout for command in commands]
    assert '"file":"movie.av1"' in printed[0].replace(" ", "")
    steps = [line.split("\t")[1].partition("@")[2] for line in printed[1].splitlines() if line.startswith("step\t")]
    assert steps == ["probe", "encode", "encode.0", "encode.1", "encode.2", "join"]
    assert len(printed[2].splitlines()) == 7


@pytest.mark.behaviour("WFL-1", "POL-8")
def test_the_question_of_a_workflow(folder: Path) -> None:
    """It is listed, shown, approved and rejected by the commands for approvals."""
    settings = of_language("docs/approvals.md", "yaml")[1].text.replace("app: jobs:app\n", "")
    (folder / "interlock.yaml").write_text(settings)
    block = next(block for block in of_language(WORKFLOWS, "yaml") if "approve:" in block.text)
    (folder / "payout.yaml").write_text(block.text)
    server = Server(folder, str(folder / "payout.yaml"), "--http", "127.0.0.1:0", target=None)
    server.extra = TOKENS
    with server:
        shop = server.http.with_token(TOKENS["SHOP_TOKEN"])
        asked = [shop.submit("payout", {"cents": 5, "to": "ann"}) for _ in range(2)]
        access = {"INTERLOCK_URL": server.url, "INTERLOCK_TOKEN": TOKENS["ANN_TOKEN"]}
        steps = [f"{run_id}@allow" for run_id in asked]
        with il.Client(server.url, token=TOKENS["ANN_TOKEN"]) as client:
            wait_until(lambda: len(list(client.approvals())) == 2, "both questions")
            assert client.approval(steps[0]).payload == {"question": "Pay 5 cents?", "data": {"to": "ann"}}
        listed = interlock(folder, "approvals", **access).stdout.splitlines()
        assert {line.split("\t")[0] for line in listed} == set(steps)
        done = interlock(folder, "approve", steps[0], "--reason", "fine", "--yes", **access)
        assert "Pay 5 cents?" in done.stderr, done
        interlock(folder, "reject", steps[1], "--reason", "no", **access)
        ends = [shop.ended(run_id) for run_id in asked]
        assert [(end["state"], end["result"]) for end in ends] == [("succeeded", "ann"), ("denied", None)]


@pytest.mark.behaviour("WFL-2")
def test_a_chunk_that_cannot_be_encoded(folder: Path) -> None:
    file = folder / "media.yaml"
    file.write_text(EXAMPLE.read_text().replace("initial_delay: 1s", "initial_delay: 10ms"))
    assert len(load([str(file)]).jobs) == 5
    with Server(folder, str(file), "--http", "local", target=None) as server:
        with il.Client(f"unix:{server.http_socket}") as client:
            run = client.submit("media", {"url": "broken"})
            with pytest.raises(il.RunEnded):
                run.result(60)
            steps = {step.id.partition("@")[2]: step.state for step in client.runs(root=run.id)}
            assert steps["encode.2"] is steps["encode"] is State.FAILED
            assert steps["clean"] is State.SUCCEEDED
            assert "join" not in steps
            assert client.get(f"{run.id}@encode.2").failures == 3
            assert [found.id for found in client.runs(job="media.encode")] == []
        shown = interlock(folder, "show", f"{run.id[:20]}@encode", "--url", f"unix:{server.http_socket}")
        assert "item 2 failed" in shown.stdout, shown


@pytest.mark.behaviour("WFL-1", "WFL-9")
def test_the_functions_of_the_document() -> None:
    made: dict[str, Any] = {}
    for block in of_language(WORKFLOWS, "python"):
        exec(block.text, made)
    assert made["app"].test(made["order"].call(["a"])).result == "slot for 1, shipped"
    assert made["app"].test(made["welcome"].call(["a", "b"])).result == "slot for 2"
