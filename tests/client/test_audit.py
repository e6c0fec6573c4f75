"""The audit from Python: the requests of each call, and both clients against a real server."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

import interlock as il
from interlock.model.audit import AuditEntry, AuditHead, AuditKind, AuditPage
from tests.client.faces import KINDS, Face, face
from tests.client.scripted import Played, Tell, answered, policy
from tests.helpers.audited import audit, audited
from tests.helpers.places import clean_folder
from tests.helpers.server import Server

PATH = "/api/v1/audit"
COUNT = 1100  # more than a page


def test_what_is_asked() -> None:
    operations: Any = Played(policy())
    asked = operations.audit(kind="verdict", actor="a b", tenant="red", subject="a/b", since=5.0, last=7)
    query = "kind=verdict&actor=a+b&tenant=red&subject=a%2Fb&since=5.0&last=true&limit=7"
    assert next(asked).path == f"{PATH}?{query}"
    assert next(operations.audit(kind=AuditKind.APPROVED)).path == f"{PATH}?kind=approved&limit=500"


def test_pages_follow_each_other() -> None:
    operations: Any = Played(policy())
    first, second, _ = audited()
    asked = operations.audit()
    assert next(asked).path == f"{PATH}?limit=500"
    assert asked.send(answered(AuditPage(entries=[first], next="a1", head=None))) == Tell(first)
    assert next(asked).path == f"{PATH}?limit=500&cursor=a1"
    assert asked.send(answered(AuditPage(entries=[second], next=None, head=None))) == Tell(second)
    with pytest.raises(StopIteration):
        next(asked)


@pytest.mark.parametrize(
    ("options", "field"), [({"last": 0}, "limit"), ({"last": 1001}, "limit"), ({"kind": "odd"}, "kind")]
)
def test_bad_arguments_are_refused(options: dict[str, Any], field: str) -> None:
    operations: Any = Played(policy())
    with pytest.raises(il.BadValue, match=f"^{field}: "):
        next(operations.audit(**options))


@pytest.mark.behaviour("SEC-7")
def test_a_token_of_one_tenant_verifies_nothing() -> None:
    operations: Any = Played(policy())
    asked = operations.verify_audit()
    assert next(asked).path == f"{PATH}?limit=1000"
    with pytest.raises(il.Forbidden, match="tenant: to verify"):
        asked.send(answered(AuditPage(entries=[], next=None, head=None)))


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    with clean_folder() as place:
        audit(place / "interlock.db", COUNT)
        with Server(place, "--http", "127.0.0.1:0", "--drain", "1s") as running:
            yield running


@pytest.fixture(params=KINDS)
def client(request: pytest.FixtureRequest, own: Server) -> Iterator[Face]:
    with face(request.param, own.url) as one:
        yield one


@pytest.mark.behaviour("SEC-7")
def test_the_audit_is_read_and_verified(client: Face) -> None:
    found: list[AuditEntry] = list(client("audit"))
    assert [one.number for one in found] == list(range(1, len(found) + 1))
    assert [one.subject for one in client("audit", tenant="red")] == ["red-run", "red-two"]
    assert [one.number for one in client("audit", last=2)] == [len(found) - 1, len(found)]
    report = client("verify_audit", found[1].hash)
    assert (report.head, report.faults) == (AuditHead(len(found), found[-1].hash), [])
    (fault,) = client("verify_audit", "f" * 64).faults
    assert fault.text.startswith("no entry has the hash ffff")


@pytest.mark.behaviour("SEC-7")
def test_changes_behind_the_servers_back_are_found(client: Face, own: Server) -> None:
    with closing(sqlite3.connect(own.database)) as connection:
        connection.execute("DROP TRIGGER IF EXISTS audit_not_changed")
        connection.execute("DROP TRIGGER IF EXISTS audit_not_deleted")
        connection.execute("UPDATE audit SET detail = '{}' WHERE number = 2")
        connection.execute("DELETE FROM audit WHERE number BETWEEN 1001 AND 1003")
        connection.commit()
    found = client("verify_audit").faults
    assert [one.text for one in found] == [
        "entry 2 was altered: its hash does not match",
        "entries 1001 to 1003 are missing",
    ]
