"""`interlock event`, and the same over HTTP: an event for a workflow, by the id of its run or by its key."""

import json
from pathlib import Path

import pytest

import interlock as il
from interlock.error import EventRefused, UnknownRun
from tests.cli.asking import ask, printed, refused
from tests.helpers.server import Server

FLOW = """\
kind: Workflow
id: order
steps:
- {id: paid, event: paid}
result: ["${input.n}", "${steps.paid.result}"]
"""


@pytest.mark.behaviour("WFL-10")
def test_an_event_by_run_and_by_key(folder: Path) -> None:
    file = folder / "order.yaml"
    file.write_text(FLOW)
    with Server(folder, str(file), "--http", "local", target=None) as server:
        with il.Client(f"unix:{server.http_socket}") as client:
            first = client.submit("order", {"n": 1})
            sent = ask(server, "event", first.id, "paid", "-p", "cents=5").stdout
            assert sent == f"{first.id}@event.paid.1\n"
            assert first.result(60) == [1, {"cents": 5}]
            refused(server, "event", first.id, "paid", exit_code=1, says="has ended as succeeded", code="event_refused")
            by_key = ("event", "--workflow", "order", "--key", "k", "paid")
            refused(
                server, *by_key, exit_code=1, says="no live run of workflow 'order' has the key", code="event_refused"
            )
            started = printed(server, *by_key, "--or-start", "--start-payload", '{"n": 2}', "-p", "a=b", "--json")["id"]
            second = client.get(started.partition("@")[0])
            assert (second.state, second.result) == ("succeeded", [2, {"a": "b"}])
            third = client.submit("order", {"n": 3}, idempotency_key="third")
            event = client.send_workflow_event("order", "third", "paid", 7, idempotency_key="once")
            assert event == f"{third.id}@event.paid.1"
            assert third.result(60) == [3, 7]
            assert client.send_workflow_event("order", "third", "paid", 7, idempotency_key="once") == event
            for value in ("7", '"cash"', "[1, null]", "null", "true"):
                other = client.submit("order", {"n": 4})
                assert ask(server, "event", other.id, "paid", "--payload", value).returncode == 0
                assert other.result(60) == [4, json.loads(value)]
            with pytest.raises(EventRefused):
                client.send_event(third.id, "paid")
            with pytest.raises(UnknownRun):
                client.send_event("nothing", "paid")
        refused(server, "event", "paid", exit_code=2, says="give RUN and NAME", code="usage")
        refused(server, "event", "x", "paid", "--or-start", exit_code=2, says="--workflow", code="usage")
        refused(server, "event", "x", "paid", "--start-payload", "{}", exit_code=2, says="--or-start", code="usage")
        for given, says, code in (
            ("{", "not valid JSON", "bad_json"), ("[]", "'…' is not a JSON object", "bad_value"),
            ("@no.json", "'@no.json' is not a file", "bad_value"),
        ):  # fmt: skip
            start = (*by_key, "--or-start", "--start-payload", given)
            refused(server, *start, exit_code=2, says=f"error: --start-payload: {says}", code=code)
        refused(server, "event", first.id, "no-name", exit_code=2, says="name: 'no-name' is not", code="bad_value")
