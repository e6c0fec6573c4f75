"""A quarantined result comes out of no interface, until an approver releases it."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

import interlock as il
from interlock.model.state import State
from tests.api.conftest import guard
from tests.api.tokens import TOKENS, as_
from tests.client.faces import KINDS, face
from tests.helpers.http import path_with
from tests.helpers.places import clean_folder
from tests.helpers.processes import wait_until
from tests.helpers.receiver import Receiver, receiving
from tests.helpers.scanned import client_of, in_state, scanning
from tests.helpers.scanning_jobs import app
from tests.helpers.server import Server, interlock

pytestmark = pytest.mark.behaviour("OUT-5")

SECRET = "hunter2"
RESULT = {"text": "Falcon hunter2-"}
LARGE = {"times": 200}  # phase one withholds it
RUN = "/api/v1/runs/{run}"
READS = (
    RUN, RUN + "?wait=1s", RUN + "/history", RUN + "/logs", RUN + "/explanation", "/api/v1/runs",
    "/api/v1/runs?live=false", "/api/v1/runs?state=output_quarantined", "/api/v1/deliveries",
    "/api/v1/audit", "/api/v1/approvals", "/metrics",
    "/api/v1/jobs", "/api/v1/jobs/leak",
)  # fmt: skip
COMMANDS = (
    ("show", "{run}"), ("show", "{run}", "--json"), ("show", "{run}", "--wait"), ("explain", "{run}"),
    ("explain", "{run}", "--json"), ("runs",), ("runs", "--json"), ("logs", "{run}"), ("deliveries", "--json"),
    ("audit",), ("audit", "--json"), ("jobs", "--json"),
)  # fmt: skip


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


@pytest.fixture(scope="module")
def server(receiver: Receiver) -> Iterator[Server]:
    with clean_folder() as place:
        guard(place)
        allowed = "--webhook-allow", "127.0.0.1"
        running = scanning(place, "--http", "127.0.0.1:0", "--log-level", "debug", *allowed)
        running.extra = {"BOSS_TOKEN": TOKENS["boss"].text, "RECEIVER": receiver.url}
        with running:
            yield running


def withheld(server: Server, **payload: Any) -> str:
    """Return a run whose result is quarantined: its content, or its size if it is large."""
    run_id = as_(server, "clerk").submit("leak", payload)
    with client_of(server) as client:
        in_state(client, run_id, State.OUTPUT_QUARANTINED)
    return run_id


@pytest.mark.parametrize("payload", [{}, LARGE])
def test_no_interface_shows_a_quarantined_result(server: Server, receiver: Receiver, payload: dict[str, Any]) -> None:
    run_id = withheld(server, **payload)
    boss = as_(server, "boss")
    answers = {path: boss.get(path.format(run=run_id)) for path in READS}
    assert [path for path, answer in answers.items() if answer.status != 200] == []
    told = {path: answer.body.decode() for path, answer in answers.items()}
    for words in COMMANDS:
        done = interlock(server.folder, *(word.format(run=run_id) for word in words))
        told[" ".join(words)] = done.stdout + done.stderr
        assert done.returncode in (0, 5), (words, done)
    for kind in KINDS:
        with face(kind, f"unix:{server.http_socket}") as client:
            for name in ("get", "history", "logs", "explain", "stats", "ending"):
                told[f"{kind}.{name}"] = str(client(name, run_id, *((None,) if name == "ending" else ())))
            told[f"{kind}.endings"] = str(list(client("endings", [run_id])))
            told[f"{kind}.runs"] = str(list(client("runs")))
            with pytest.raises(il.RunQuarantined) as caught:
                client("result", run_id)
            told[f"{kind}.result"] = str(caught.value)
            told[f"{kind}.events"] = str(list(client("events", run=run_id)))
    told |= asyncio.run(_over_the_socket(server, run_id))
    # It was sent at the success. A run that its metadata withholds never succeeds, nor fails.
    wait_until(lambda: payload or receiver.ids("/end", run_id), "the webhook has come")
    assert not payload or not receiver.ids("/end", run_id)
    told["webhook"] = json.dumps([event for _, _, event in receiver.got])
    told["log"] = server.said
    assert [name for name, text in told.items() if SECRET in text] == []
    assert all(run_id in told[name] for name in (RUN, "show {run}", "runs --json", "Client.events"))
    assert f"interlock release {run_id} --reason TEXT" in told["Client.result"]


async def _over_the_socket(server: Server, run_id: str) -> dict[str, str]:
    async with app.connected(str(server.socket)):
        handle = await app.handle(run_id)
        told = [str(await ask()) for ask in (handle.info, handle.history, handle.logs, handle.explain, handle.stats)]
        with pytest.raises(il.RunQuarantined) as caught:
            await handle.result()
        return {"socket": "\n".join([*told, str(caught.value)])}


def test_who_waits_for_a_run_does_not_get_what_its_size_withholds(server: Server) -> None:
    answer = as_(server, "clerk").post("/api/v1/runs?wait=30s", {"job": "leak", "payload": LARGE})
    assert (answer.json["state"], answer.json["result"]) == ("output_quarantined", None)
    for words in (("--wait",), ("--wait", "--json")):
        done = interlock(server.folder, "submit", "leak", "--payload", json.dumps(LARGE), *words)
        assert done.returncode == 5, done
        assert "output_quarantined" in done.stderr
        assert SECRET not in done.stdout + done.stderr


def test_a_check_does_not_pass_on_a_quarantined_result(server: Server) -> None:
    clerk = as_(server, "clerk")
    run_id = clerk.submit("checked")
    clerk.ended(run_id)
    shown = clerk.get(f"/api/v1/runs/{run_id}").body.decode()
    assert "ended as output_quarantined" in shown
    assert SECRET not in shown


@pytest.mark.behaviour("SEC-2")
def test_who_may_release_a_result(server: Server) -> None:
    run_id = withheld(server)
    path, body = f"/api/v1/runs/{run_id}/release-output", {"reason": "a false alarm"}
    for name in ("guest", "clerk", "stranger"):
        answer = as_(server, name).post(path, body)
        assert (answer.status, answer.code) == (403, "forbidden")
    judge, boss = as_(server, "judge"), as_(server, "boss")
    for wrong in ({}, {"reason": ""}, {"reason": " "}, {"reason": "x" * 501}, {"reason": "x", "state": "y"}):
        assert judge.post(path, wrong).status in (400, 422)
    assert as_(server, "clerk").get(f"/api/v1/runs/{run_id}").json["result"] is None
    for name in ("judge", "boss", "chief"):
        assert as_(server, name).post(path, body).json == {"id": run_id, "state": "output_quarantined"}
    shown = as_(server, "clerk").get(f"/api/v1/runs/{run_id}").json
    assert (shown["state"], shown["result"]) == ("output_quarantined", RESULT)
    record = shown["facets"]["output"]
    assert (record["released_by"], record["release_reason"]) == ("judge", "a false alarm")
    entries = boss.get(path_with("/api/v1/audit", {"subject": run_id})).json["entries"]
    assert [(one["kind"], one["actor"]) for one in entries] == [("quarantined", "clerk"), ("released", "judge")]
    other = boss.submit("leak", tenant="blue")
    boss.ended(other)
    answer = judge.post(f"/api/v1/runs/{other}/release-output", body)
    assert (answer.status, answer.code) == (404, "unknown_run")
    done = boss.submit("say", {"value": "fine"})
    boss.ended(done)
    answer = boss.post(f"/api/v1/runs/{done}/release-output", body)
    assert (answer.status, answer.code) == (409, "not_quarantined")


@pytest.mark.behaviour("OUT-7")
def test_a_released_result_is_handed_out(server: Server) -> None:
    run_id = withheld(server)
    done = interlock(server.folder, "release", run_id)
    assert (done.returncode, "add --reason" in done.stderr) == (2, True)
    shown = interlock(server.folder, "show", run_id).stdout
    assert "output\tquarantined for its content, " in shown
    assert "\nfinding\tkeywords\tkeyword\t$.text\t6 characters\n" in shown
    assert "result\t" not in shown
    explained = interlock(server.folder, "explain", run_id).stdout
    assert "succeeded, but its result was quarantined" in explained
    assert f"interlock release {run_id} --reason TEXT" in explained
    done = interlock(server.folder, "release", run_id, "--reason", "a false alarm")
    assert (done.returncode, done.stdout) == (0, f"{run_id}\toutput_quarantined\n")
    shown = interlock(server.folder, "show", run_id).stdout
    assert 'result\t{"text":' in shown
    assert "\nreleased\tby " in shown
    assert "released it: a false alarm" in interlock(server.folder, "explain", run_id).stdout
    assert interlock(server.folder, "show", run_id, "--wait").returncode == 0
    assert as_(server, "judge").get(f"/api/v1/runs/{run_id}").json["attempt"] == 1


@pytest.mark.parametrize("kind", KINDS)
def test_both_clients_release_a_result(server: Server, kind: str) -> None:
    run_id = withheld(server)
    with face(kind, f"unix:{server.http_socket}") as client:
        handle = client("handle", run_id)
        with pytest.raises(il.RunQuarantined):
            handle("result")
        assert client("release_output", run_id, "a false alarm") is State.OUTPUT_QUARANTINED
        assert client("result", run_id) == handle("result") == RESULT
        with pytest.raises(il.BadValue, match=r"^reason: "):
            client("release_output", run_id, "")
