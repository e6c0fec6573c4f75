"""`interlock retry`, and the same over HTTP and from Python."""

import pytest

import interlock as il
from interlock import AsyncClient, Client
from interlock.error import BadValue, RunNotEnded
from tests.cli.asking import ask, detail, printed, refused
from tests.helpers.server import Server

pytestmark = pytest.mark.behaviour("RUN-23")

RUNS = "/api/v1/runs"


def ended(server: Server, *options: str) -> str:
    """A run that was cancelled before it was due."""
    run_id = ask(server, "submit", "echo", "-p", "value=7", "--delay", "1d", *options).stdout.strip()
    ask(server, "cancel", run_id)
    return run_id


def test_runs_by_name(server: Server) -> None:
    one, two = ended(server, "--session", "s", "--label", "by=ann"), ended(server)
    done = ask(server, "retry", one, two, "--reason", "once more")
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert ([old for _, old in lines], done.stderr, done.returncode) == ([one, two], "", 0)
    new = lines[0][0]
    assert ask(server, "show", new, "--wait").returncode == 0
    found = detail(server, new)
    assert (found["state"], found["result"], found["payload"], found["session"]) == ("succeeded", 7, {"value": 7}, "s")
    assert (found["origin"], found["facets"].pop("session")["place"]) == ("retry", 1)
    assert found["facets"] == {"labels": {"by": "ann"}, "retry_of": {"run_id": one}}
    assert detail(server, one)["facets"]["retried_as"] == {"run_id": new}
    assert f"retry_of\trun_id {one}\n" in ask(server, "show", new).stdout
    assert printed(server, "show", new, "--json")["history"][0]["reason"] == "once more"
    again = printed(server, "retry", new, "--json")["runs"][0]
    assert (again["retry_of"], again["id"] > new) == (new, True)


def test_bad_input(server: Server) -> None:
    live = ask(server, "submit", "echo", "--delay", "1d").stdout.strip()
    before = len(server.local.get(RUNS, limit=200).json["runs"])
    refused(server, "retry", live, exit_code=1, says="prerun", code="run_not_ended")
    refused(server, "retry", "nothing", exit_code=3, says="'nothing'", code="unknown_run")
    # A prefix that fits two runs.
    shared = live[:4]
    ended(server)
    refused(server, "retry", shared, exit_code=2, says=shared, code="bad_value")
    refused(server, "retry", "--state", "running", "--yes", exit_code=2, says="running", code="bad_value")
    refused(server, "retry", "--job", "nothing", "--yes", exit_code=3, says="'nothing'", code="unknown_job")
    refused(server, "retry", exit_code=2, says="retry", code="usage")
    assert len(server.local.get(RUNS, limit=200).json["runs"]) == before + 1
    good = ended(server)
    mixed = ask(server, "retry", live, good)
    assert (mixed.stdout.split("\t")[1], mixed.returncode) == (f"{good}\n", 1)
    ask(server, "cancel", live)


@pytest.mark.behaviour("RUN-25")
def test_runs_by_filter(server: Server) -> None:
    old = [ended(server, "--session", "again", "--session-option", "debounce=0s") for _ in range(3)]
    refused(server, "retry", "--session", "again", exit_code=2, says="3 runs", code="usage")
    done = ask(server, "retry", "--session", "again", "--job", "echo", "--yes", "--reason", "fixed")
    request, *counts = done.stdout.rstrip("\n").split("\t")
    assert (counts, done.stderr, done.returncode) == (["3", "0", "finished"], "", 0)
    new = [detail(server, one)["facets"]["retried_as"]["run_id"] for one in old]
    assert {detail(server, one)["facets"]["retry_of"]["run_id"] for one in new} == set(old)
    followed = printed(server, "retry", "--request", request, "--json")
    assert (followed["action"], followed["done"], followed["left"]) == ("retry", 3, None)
    for one in new:
        ask(server, "show", one, "--wait")
    again = ask(server, "retry", "--session", "again", "--yes")
    assert again.stdout.split("\t")[1:] == ["0", "0", "finished\n"], "each was retried before"
    by_state = ask(server, "retry", "--session", "again", "--state", "succeeded", "--yes")
    assert by_state.stdout.split("\t")[1:] == ["3", "0", "finished\n"]


def test_over_http_a_key_makes_it_safe_to_repeat(server: Server) -> None:
    old = ended(server)
    answer = server.local.post(f"{RUNS}/{old}/retry", None, {"Idempotency-Key": "one"})
    assert (answer.status, answer.json["state"]) == (201, "pending")
    new = answer.json["id"]
    assert server.local.get(f"{RUNS}/{new}").json["facets"] == {"retry_of": {"run_id": old}}
    assert server.local.post(f"{RUNS}/{old}/retry", None, {"Idempotency-Key": "one"}).json["id"] == new
    assert server.local.post(f"{RUNS}/{old}/retry", {"reason": "x"}, {"Idempotency-Key": "two"}).json["id"] != new
    live = server.local.submit("echo", {"value": 1}, delay="1d")
    refusal = server.local.post(f"{RUNS}/{live}/retry", None)
    assert (refusal.status, refusal.json["code"]) == (409, "run_not_ended")
    ask(server, "cancel", live)


async def test_from_python(server: Server) -> None:
    old = ended(server)
    with Client(f"unix:{server.http_socket}") as client:
        new = client.retry(old, "again")
        assert new.result("30s") == 7
        assert client.handle(new.id).retry().result("30s") == 7
        assert client.act_on_many("retry", session="nothing").done == 0
        live = client.submit("echo", {"value": 1}, delay="1d")
        with pytest.raises(RunNotEnded, match="prerun"):
            live.retry()
        live.cancel()
    async with AsyncClient(f"unix:{server.http_socket}") as client:
        assert await (await client.handle(old).retry()).result("30s") == 7
    async with il.App().connected(str(server.folder / "interlock.db.sock")) as app:
        assert await (await (await app.handle(old)).retry()).result("30s") == 7


@pytest.mark.behaviour("RUN-6")
def test_a_key_that_is_unique_while_its_run_lives(server: Server) -> None:
    """Everywhere: on the command line, over HTTP, from Python."""
    options = ("submit", "echo", "--delay", "1d", "--key", "alone", "--unique", "while_live")
    one = ask(server, *options).stdout.strip()
    body = {"job": "echo", "delay": "1d", "idempotency_key": "alone", "unique": "while_live"}
    assert server.local.post(RUNS, body).json["id"] == one
    assert detail(server, one)["facets"] == {"unique": {"while_live": True}}
    with Client(f"unix:{server.http_socket}") as client:
        assert client.submit("echo", idempotency_key="alone", unique="while_live").id == one
        client.cancel(one)
        two = client.trigger("echo", {"value": 1}, idempotency_key="alone", unique="while_live")
        assert two.id != one
        assert two.result("30s") == 1
        three = client.submit_many([il.run("echo", {"value": 2}, idempotency_key="alone", unique="while_live")])[0]
        assert three.result("30s") == 2
        with pytest.raises(BadValue) as caught:
            client.submit("echo", unique="while_live")
        assert caught.value.field == "unique"
    refused(server, "submit", "echo", "--unique", "while_live", exit_code=2, says="idempotency_key", code="bad_value")
    refused(server, "submit", "echo", "--key", "k", "--unique", "x", exit_code=2, says="'x'", code="bad_value")
    for wrong in ({"unique": "while_live"}, {"unique": "x", "idempotency_key": "k"}):
        answer = server.local.post(RUNS, {"job": "echo", **wrong})
        assert (answer.status, answer.json["code"]) == (400, "bad_value")
