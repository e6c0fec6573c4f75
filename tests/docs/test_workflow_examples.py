"""The examples of workflows that are functions: they run, and a kill in the midst changes nothing."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import interlock as il
from examples.workflows import agent, media, order
from interlock.model.state import State
from tests.docs.blocks import of_language
from tests.docs.test_approvals import TOKENS
from tests.helpers.processes import wait_until
from tests.helpers.server import Server

STEPS = ["think", "use", "approval", "use-2", "think-2", "event.hint.1", "think-3", "report", "report@write"]
ANSWER = "search done; buy done; green; tea: green"
ORDER, RELEASE = (str(Path(order.__file__).with_name(f"{name}.yaml")) for name in ("order", "release"))
SETTINGS = """\
tokens:
- {name: ann, role: approver, tenant: "*", env: ANN_TOKEN}
- {name: shop, role: operator, env: SHOP_TOKEN}
"""


@pytest.mark.behaviour("WFL-1", "WFL-9")
def test_the_functions_of_the_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    namespace: dict[str, Any] = {}
    for block in of_language("docs/workflows.md", "python"):
        exec(block.text, namespace)
    with il.testing.scheduler(namespace["app"]) as scheduler:
        assert scheduler.submit(namespace["order"].call(["a"])).result() == "slot for 1, shipped"
        assert scheduler.submit(namespace["welcome"].call(["a"])).result() == "slot for 1"
        assert (scheduler.now - datetime(2030, 1, 1, tzinfo=UTC)).total_seconds() >= 3900
    monkeypatch.chdir(tmp_path)
    steps = [{"name": "reserve", "place": 0, "state": "succeeded", "result": "slot for 1"}, {"name": "sleep"}]
    record = {"workflow": "order", "run_id": "r", "state": "under_way", "payload": {"items": ["a"]}, "steps": steps,
              "began_at": "2030-01-01T00:00:00Z", "seen": 1, "ended": False, "changes": []}  # fmt: skip
    Path("order.json").write_text(json.dumps(record))
    namespace["test_old_runs_still_fit"]()
    Path("order.json").write_text(json.dumps(record).replace('"sleep"', '"pause"'))
    with pytest.raises(il.RecordDiffers, match="asks for step 'sleep' where its record has 'pause'"):
        namespace["test_old_runs_still_fit"]()


@pytest.mark.behaviour("WFL-4", "WFL-5")
def test_an_order_that_cannot_be_shipped_is_undone_in_reverse() -> None:
    with il.testing.scheduler(order.app) as scheduler:
        good = scheduler.submit(order.order.call("ann", ["tea"], 500))
        assert good.result() == "tea from slot of 1"
        bad = scheduler.submit(order.order.call("ann", ["tea", "anvil"], 500))
        with pytest.raises(il.RunFailed, match="an anvil is too heavy"):
            bad.result()
        undone = [run.id for run in scheduler.runs() if "@comp-" in run.id]
        assert undone == [f"{bad.id}@comp-charge", f"{bad.id}@comp-reserve"]


@pytest.mark.behaviour("WFL-5", "EXE-9")
def test_the_same_order_as_a_graph(folder: Path) -> None:
    with Server(folder, ORDER, "--http", "local", target=None) as server:
        with il.Client(f"unix:{server.http_socket}") as client:
            good = client.submit("order", {"customer": "ann", "items": ["tea"], "cents": 500})
            assert good.result(30) == "shipped"
            bad = client.submit("order", {"customer": "ann", "items": ["anvil"], "cents": 500})
            with pytest.raises(il.RunFailed, match=r"step 'ship' failed: .*an anvil is too heavy"):
                bad.result(30)
            refund, release = (client.get(f"{bad.id}@comp-{name}") for name in ("charge", "reserve"))
            assert refund.payload == {"charge": "charge 17", "cents": 500}
            assert release.payload == {"items": ["anvil"], "result": "slot 4"}
            assert refund.ended_at is not None
            assert release.started_at is not None
            assert refund.ended_at <= release.started_at


@pytest.mark.behaviour("WFL-2", "WFL-5")
def test_a_release_with_branches_that_is_undone_if_nobody_announces_it(folder: Path) -> None:
    with Server(folder, RELEASE, "--http", "local", target=None) as server:
        with il.Client(f"unix:{server.http_socket}") as client:
            good = client.submit("release", {"version": "1.2"})
            assert good.result(30) == {"file": "app-1.2.tar", "place": "rack 7"}
            bad = client.submit("release", {"version": "13"})
            with pytest.raises(il.RunFailed, match=r"step 'announce' failed: .*nobody announces version 13"):
                bad.result(30)
            assert client.get(f"{bad.id}@comp-deploy").payload == {"place": "rack 7"}
            names = {name.partition("@")[2]: state for name, state in states(client, bad.id).items()}
            done = ("build", "checks", "lint", "deploy", "probe", "comp-deploy")
            assert names == dict.fromkeys(done, State.SUCCEEDED) | {"announce": State.FAILED}
            ran = {name: client.get(f"{good.id}@{name}") for name in ("build", "lint", "deploy", "probe", "announce")}
        begun, ended = (
            {name: getattr(run, at) or 0.0 for name, run in ran.items()} for at in ("created_at", "ended_at")
        )
    assert begun["lint"] == begun["deploy"] >= ended["build"], "the branches begin together"
    assert begun["probe"] >= ended["deploy"]
    assert begun["announce"] >= max(ended["lint"], ended["probe"])


@pytest.mark.behaviour("WFL-2")
def test_the_media_pipeline_as_a_function() -> None:
    with il.testing.scheduler(media.app) as scheduler:
        assert scheduler.submit(media.media.call("movie")).result() == "movie of 3 parts"
        bad = scheduler.submit(media.media.call("broken"))
        with pytest.raises(il.RunFailed, match="ValueError: chunk 'broken' cannot be read"):
            bad.result()
        ends = {
            run.id.partition("@")[2]: (run.state, run.attempt) for run in scheduler.runs() if run.id.startswith(bad.id)
        }
        assert ends["encode.2"] == (State.FAILED, 3)
        assert ends["clean"] == (State.SUCCEEDED, 1)


@pytest.mark.behaviour("WFL-1", "WFL-10", "POL-8")
@pytest.mark.parametrize("approves", [True, False])
def test_the_agent_asks_before_a_risky_tool(approves: bool) -> None:
    with il.testing.scheduler(agent.app) as scheduler:
        run = scheduler.submit(agent.agent.call("tea"), actor="shop")
        scheduler.send(run.id, "hint", {"text": "green"})
        scheduler.advance("1m")
        with pytest.raises(il.SelfApproval):
            scheduler.approve(f"{run.id}@approval", "please", actor="shop")
        if approves:
            scheduler.approve(f"{run.id}@approval", "fine", actor="ann")
            assert run.result() == ANSWER
        else:
            scheduler.reject(f"{run.id}@approval", "no", actor="ann")
            with pytest.raises(il.RunDenied, match="rejected by ann: no"):
                run.result()


@pytest.mark.behaviour("WFL-1", "WFL-9", "WFL-10", "REC-6")
def test_the_agent_survives_kills_while_it_waits(folder: Path) -> None:
    (folder / "interlock.yaml").write_text(SETTINGS)
    server = Server(folder, "--http", "127.0.0.1:0", target="examples.workflows.agent:app")
    server.extra = TOKENS
    try:
        server.start()
        with il.Client(server.url, token=TOKENS["SHOP_TOKEN"]) as shop:
            run_id = shop.submit("agent", {"goal": "tea"}).id
            wait_until(lambda: f"{run_id}@approval" in states(shop, run_id), "the question")
        server.kill()
        server.start()
        with il.Client(server.url, token=TOKENS["ANN_TOKEN"]) as ann:
            assert ann.approve(f"{run_id}@approval", "fine")
        with il.Client(server.url, token=TOKENS["SHOP_TOKEN"]) as shop:
            wait_until(lambda: f"{run_id}@event.hint.1" in states(shop, run_id), "the wait for the hint")
        server.kill()
        server.start()
        with il.Client(server.url, token=TOKENS["SHOP_TOKEN"]) as shop:
            shop.send_event(run_id, "hint", {"text": "green"})
            assert shop.handle(run_id).result(60) == ANSWER
            found = states(shop, run_id)
            assert {name.partition("@")[2] for name in found} == set(STEPS)
            assert set(found.values()) == {State.SUCCEEDED}
            assert all(shop.get(step).attempt == 1 for step in found if "think" in step or "use" in step)
    finally:
        server.stop()


def states(client: il.Client, run_id: str) -> dict[str, State]:
    return {step.id: step.state for step in client.runs(root=run_id)}
