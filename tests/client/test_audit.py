"""The audit with both clients, against a real server."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from interlock.model.audit import AuditEntry, AuditHead
from tests.client.faces import KINDS, Face, face
from tests.helpers.audited import audit
from tests.helpers.places import clean_folder
from tests.helpers.server import Server

COUNT = 1100  # more than a page
pytestmark = pytest.mark.behaviour("SEC-7")


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    with clean_folder() as place:
        audit(place / "interlock.db", COUNT)
        with Server(place, "--http", "local", "--workers", "0", "--drain", "1s") as running:
            yield running


@pytest.fixture(params=KINDS)
def client(request: pytest.FixtureRequest, own: Server) -> Iterator[Face]:
    with face(request.param, f"unix:{own.http_socket}") as one:
        yield one


def test_the_audit_is_read_and_verified(client: Face) -> None:
    found: list[AuditEntry] = list(client("audit"))
    assert [one.number for one in found] == list(range(1, len(found) + 1))
    assert [one.subject for one in client("audit", tenant="red")] == ["red-run", "red-two"]
    assert [one.number for one in client("audit", last=2)] == [len(found) - 1, len(found)]
    report = client("verify_audit", found[1].hash)
    assert (report.head, report.faults) == (AuditHead(len(found), found[-1].hash), [])
    (fault,) = client("verify_audit", "f" * 64).faults
    assert fault.text.startswith("no entry has the hash ffff")


def test_changes_behind_the_servers_back_are_found(client: Face, own: Server) -> None:
    with closing(sqlite3.connect(own.database)) as connection:
        connection.execute("DROP TRIGGER IF EXISTS audit_not_changed")
        connection.execute("DROP TRIGGER IF EXISTS audit_not_deleted")
        connection.execute("UPDATE audit SET detail = '{}' WHERE number = 2")
        connection.execute("DELETE FROM audit WHERE number BETWEEN 1001 AND 1003")
        connection.commit()
    assert [fault.text for fault in client("verify_audit").faults] == [
        "entry 2 was altered: its hash does not match",
        "entries 1001 to 1003 are missing",
    ]
