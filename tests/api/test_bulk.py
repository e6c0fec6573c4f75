"""Many runs cancelled by one request over HTTP: what it chooses, who may, and how far it has come."""

from typing import Any

import pytest

from tests.api.tokens import as_
from tests.helpers.http import Http
from tests.helpers.processes import wait_until
from tests.helpers.server import Server

RUNS, CANCEL, BULK = "/api/v1/runs", "/api/v1/runs/cancel", "/api/v1/bulk"


def waiting(http: Http, count: int, **fields: Any) -> list[str]:
    return [http.submit("echo", {"value": 1}, delay="1d", **fields) for _ in range(count)]


def finished(http: Http, bulk_id: str) -> dict[str, Any]:
    wait_until(lambda: http.get(f"{BULK}/{bulk_id}").json["ended_at"] is not None, "the request has finished")
    found: dict[str, Any] = http.get(f"{BULK}/{bulk_id}").json
    return found


def states(http: Http, run_ids: list[str]) -> set[str]:
    return {http.get(f"{RUNS}/{one}").json["state"] for one in run_ids}


@pytest.mark.behaviour("RUN-25", "RUN-10")
def test_one_request_cancels_every_run_that_fits(http: Http) -> None:
    chosen, others = waiting(http, 3, session="bulk"), waiting(http, 2, session="not this")
    asked = {"session": "bulk", "job": "echo", "state": ["prerun"], "since": 1, "reason": "not needed"}
    answer = http.post(CANCEL, asked, {"Idempotency-Key": "bulk one"})
    assert (answer.status, answer.headers["location"]) == (202, f"{BULK}/{answer.json['id']}")
    found = finished(http, answer.json["id"])
    assert (found["action"], found["done"], found["asked"], found["left"]) == ("cancel", 3, 0, 0)
    assert (found["session"], found["job"], found["state"], found["since"]) == (
        "bulk",
        "echo",
        ["prerun"],
        "1970-01-01T00:00:01.000Z",
    )
    assert (found["reason"], found["actor"], found["tenant"]) == ("not needed", "local", None)
    assert (states(http, chosen), states(http, others)) == ({"cancelled"}, {"prerun"})
    later = waiting(http, 1, session="bulk")
    assert http.post(CANCEL, asked, {"Idempotency-Key": "bulk one"}).json == found, "the same key is the same request"
    assert states(http, later) == {"prerun"}
    other = http.post(CANCEL, {"session": "another"}, {"Idempotency-Key": "bulk one"})
    assert (other.status, other.json["code"]) == (409, "idempotency_conflict")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "all: "),
        ({"reason": "none"}, "all: "),
        ({"state": ["scheduled", "failed"]}, "state: 'failed' is not allowed to cancel; runs in it have ended"),
        ({"state": ["nowhere"]}, "state[0]: 'nowhere' is not"),
        ({"session": 7}, "session: 7 is not"),
        ({"live": True}, "live"),
    ],
)
def test_what_is_refused(http: Http, body: dict[str, Any], says: str) -> None:
    answer = http.post(CANCEL, body)
    assert answer.status == 400
    assert says in answer.json["detail"]


@pytest.mark.behaviour("RUN-25")
def test_a_token_of_a_tenant_cancels_what_is_its_own(guarded: Server) -> None:
    boss, clerk, other = as_(guarded, "boss"), as_(guarded, "clerk"), as_(guarded, "stranger")
    mine, foreign = waiting(clerk, 2, session="ours"), waiting(other, 1, session="ours")
    assert clerk.post(CANCEL, {"all": True, "tenant": "foreign"}).status == 403
    assert clerk.post(CANCEL, {}).status == 400
    bulk_id = clerk.post(CANCEL, {"session": "ours"}).json["id"]
    assert finished(clerk, bulk_id)["done"] == 2
    assert (states(boss, mine), states(boss, foreign)) == ({"cancelled"}, {"prerun"})
    assert other.get(f"{BULK}/{bulk_id}").status == 404
    assert boss.get(f"{BULK}/{bulk_id}").json["actor"] == "clerk"
    assert as_(guarded, "guest").post(CANCEL, {"session": "ours"}).status == 403
