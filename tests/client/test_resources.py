"""Approvals, the audit and deliveries with both clients, against a real server."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import msgspec
import pytest

import interlock as il
from interlock.interface.approval_view import ApprovalDetail, ApprovalInfo
from interlock.model.audit import AuditEntry, AuditHead
from interlock.model.delivery import DeliveryInfo, DeliveryState
from tests.client.faces import KINDS, Face, face
from tests.helpers.audited import audit
from tests.helpers.judged import ASKS, write_policy
from tests.helpers.owed import DELIVERED, FAILED, owe
from tests.helpers.places import clean_folder
from tests.helpers.server import Server

COUNT = 1100  # more than a page
TOKEN = "{}-0123456789abcdef"
ROLES = {"ann": "approver", "bob": "operator", "boss": "admin, tenant: '*'"}


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    with clean_folder() as place:
        lines = (f"  - {{name: {name}, role: {role}, token: {TOKEN.format(name)}}}\n" for name, role in ROLES.items())
        (place / "interlock.yaml").write_text("tokens:\n" + "".join(lines))
        for store, more in ((audit, (COUNT,)), (owe, ())):
            store(place / "interlock.db", *more)
        with Server(place, write_policy(place), "--http", "127.0.0.1:0", "--drain", "1s") as running:
            yield running


@pytest.fixture(params=KINDS)
def clients(request: pytest.FixtureRequest, own: Server) -> Iterator[tuple[Face, ...]]:
    """Those of ann, bob and boss."""
    with (
        face(request.param, own.url, token=TOKEN.format("ann")) as ann,
        face(request.param, own.url, token=TOKEN.format("bob")) as bob,
        face(request.param, own.url, token=TOKEN.format("boss")) as boss,
    ):
        yield ann, bob, boss


@pytest.mark.behaviour("POL-8")
def test_runs_are_approved_and_rejected(clients: tuple[Face, ...]) -> None:
    ann, bob, _ = clients
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


@pytest.mark.behaviour("CON-7")
def test_a_delivery_is_shown_and_repeated(clients: tuple[Face, ...]) -> None:
    *_, boss = clients
    found: list[DeliveryInfo] = list(boss("deliveries"))
    assert boss("delivery", DELIVERED) == found[2]
    again = boss("redeliver", FAILED)
    assert msgspec.structs.replace(again, next_at=None) == msgspec.structs.replace(
        found[1], state=DeliveryState.PENDING, tries=again.tries, next_at=None, ended_at=None, status=None, answer="",
        error=again.error,
    )  # fmt: skip


@pytest.mark.behaviour("SEC-7")
def test_the_audit_is_read_and_verified(clients: tuple[Face, ...]) -> None:
    *_, boss = clients
    found: list[AuditEntry] = list(boss("audit"))
    assert [one.number for one in found] == list(range(1, len(found) + 1))
    assert [one.subject for one in boss("audit", tenant="red")] == ["red-run", "red-two"]
    assert [one.number for one in boss("audit", last=2)] == [len(found) - 1, len(found)]
    report = boss("verify_audit", found[1].hash)
    assert (report.head, report.faults) == (AuditHead(len(found), found[-1].hash), [])
    (fault,) = boss("verify_audit", "f" * 64).faults
    assert fault.text.startswith("no entry has the hash ffff")


@pytest.mark.behaviour("SEC-7")
def test_changes_behind_the_servers_back_are_found(clients: tuple[Face, ...], own: Server) -> None:
    with closing(sqlite3.connect(own.database)) as connection:
        connection.execute("DROP TRIGGER IF EXISTS audit_not_changed")
        connection.execute("DROP TRIGGER IF EXISTS audit_not_deleted")
        connection.execute("UPDATE audit SET detail = '{}' WHERE number = 2")
        connection.execute("DELETE FROM audit WHERE number BETWEEN 1001 AND 1003")
        connection.commit()
    assert [fault.text for fault in clients[-1]("verify_audit").faults] == [
        "entry 2 was altered: its hash does not match",
        "entries 1001 to 1003 are missing",
    ]
