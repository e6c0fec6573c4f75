"""Approvals from Python: the requests of each call, and both clients against a real server."""

from collections.abc import Iterator
from typing import Any

import pytest

import interlock as il
from interlock.client.http.exchange import HttpRequest
from interlock.interface.approval_view import ApprovalDetail, ApprovalInfo, ApprovalPage
from tests.client.faces import KINDS, Face, face
from tests.client.scripted import Played, Tell, answered, policy
from tests.helpers.judged import ASKS, write_policy
from tests.helpers.places import clean_folder
from tests.helpers.server import Server

PATH = "/api/v1/approvals"
INFO = ApprovalInfo(
    run_id="r1", job_id="pay", tenant="red", rule="money", reason="money moves", created_by="bob", asked_at=1.0,
    expires_at=2.0, labels={}, seen="a:b",
)  # fmt: skip
TOKENS = {"ann": "approver", "bob": "operator"}


def test_what_is_asked() -> None:
    operations: Any = Played(policy())
    assert next(operations.approval("r1")) == HttpRequest("GET", f"{PATH}/r1")
    # A repeated answer would find the run answered.
    body = b'{"reason":"fine","seen":"a:b"}'
    assert next(operations.approve("r1", "fine", "a:b")) == HttpRequest(
        "POST", "/api/v1/runs/r1/approve", body, once=True
    )
    body = b'{"reason":"no"}'
    assert next(operations.reject("r1", "no")) == HttpRequest("POST", "/api/v1/runs/r1/reject", body, once=True)
    asked = operations.approvals(job="pay", tenant="red", limit=2)
    assert next(asked).path == f"{PATH}?job=pay&tenant=red&limit=2"
    assert asked.send(answered(ApprovalPage(approvals=[INFO], next="p7"))) == Tell(INFO)
    assert next(asked).path == f"{PATH}?job=pay&tenant=red&limit=2&cursor=p7"
    assert asked.send(answered(ApprovalPage(approvals=[INFO] * 2, next="p5"))) == Tell(INFO)
    with pytest.raises(StopIteration):
        next(asked)
    assert next(operations.approvals()).path == f"{PATH}?limit=500"


@pytest.mark.parametrize("reason", ["", " ", "x" * 501, 5])
def test_a_reason_is_needed(reason: Any) -> None:
    operations: Any = Played(policy())
    for name in ("approve", "reject"):
        with pytest.raises(il.BadValue, match=r"^reason: "):
            next(getattr(operations, name)("r1", reason))


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    with clean_folder() as place:
        lines = (
            f"  - {{name: {name}, role: {role}, token: {name}-0123456789abcdef}}\n" for name, role in TOKENS.items()
        )
        (place / "interlock.yaml").write_text("tokens:\n" + "".join(lines))
        with Server(place, write_policy(place), "--http", "127.0.0.1:0", "--drain", "1s") as running:
            yield running


@pytest.fixture(params=KINDS)
def clients(request: pytest.FixtureRequest, own: Server) -> Iterator[tuple[Face, Face]]:
    with (
        face(request.param, own.url, token="ann-0123456789abcdef") as ann,
        face(request.param, own.url, token="bob-0123456789abcdef") as bob,
    ):
        yield ann, bob


@pytest.mark.behaviour("POL-8")
def test_runs_are_approved_and_rejected(clients: tuple[Face, Face]) -> None:
    ann, bob = clients
    first, second = bob("submit", ASKS, {"value": 5}), bob("submit", ASKS)
    found: list[ApprovalInfo] = list(ann("approvals"))
    assert [(one.run_id, one.created_by) for one in found] == [(second.id, "bob"), (first.id, "bob")]
    shown: ApprovalDetail = ann("approval", first.id)
    assert (shown.seen, shown.payload, shown.answer) == (found[1].seen, {"value": 5}, None)
    with pytest.raises(il.StaleApproval):
        ann("approve", first.id, "looked at", "other")
    assert ann("approve", first.id, "looked at", shown.seen) in tuple(il.State)
    assert bob("result", first.id, "30s") == 5
    assert ann("reject", second.id, "not today") is il.State.DENIED
    with pytest.raises(il.RunDenied, match="rejected by ann: not today"):
        bob("result", second.id, "30s")
    with pytest.raises(il.AlreadyResolved, match="was answered by ann; it is denied"):
        ann("approve", second.id, "after all")
    explained: il.Explanation = bob("explain", second.id)
    assert explained.verdict is not None
    assert explained.verdict.answer is not None
    assert (explained.verdict.rule, explained.verdict.answer.by) == ("money", "ann")
    with pytest.raises(il.NoApproval):
        ann("approval", bob("submit", "echo").id)
