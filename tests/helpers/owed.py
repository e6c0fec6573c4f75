"""Deliveries in a database, before a server starts with it."""

import time
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from interlock.model.delivery import Delivery, Outgoing
from interlock.model.facets import Facets, Guarded
from interlock.model.guard import Violation
from interlock.model.state import State
from tests.contract.samples import created, entry, make_run
from tests.helpers.records import changes
from tests.helpers.written import write

TRIES = 7  # after which the next one is an hour away
URL = "http://127.0.0.1:1/in"  # nobody answers there
PENDING, FAILED, DELIVERED, OTHER = ("0aaaaaaa" * 4, "0bbbbbbb" * 4, "0ccccccc" * 4, "0ddddddd" * 4)


def owed(id: str, run_id: str = "red-run", tenant: str = "red", **fields: Any) -> Delivery:
    now = time.time()
    request = Outgoing(f"{URL}?key=secret", None, None, None, 1.0, "application/json", b'{"a":1}')
    one = Delivery(
        id,
        run_id,
        "echo",
        tenant,
        "run.failed",
        "127.0.0.1:1",
        None,
        now - 60,
        now + 3600,
        request,
        tries=TRIES,
        next_at=now + 1800,
    )
    return replace(one, **fields)


def owe(database: Path) -> None:
    """Store three deliveries of a run of red, which violated a constraint, and one of a run of blue."""
    now = time.time()
    violation = Violation("require_previous_success", "the previous run failed", now - 61)
    times = {"created_at": now - 90, "scheduled_at": now - 90, "changed_at": now - 60, "ended_at": now - 60}
    runs = [
        make_run(f"{tenant}-run", tenant=tenant, job_id="echo", state=State.FAILED, reason="no", **times)
        for tenant in ("red", "blue")
    ]
    runs[0].facets = Facets(constraints=Guarded(checked=2, violated=1, violations=(violation,)))
    batch = created(*runs)
    batch.history = [(run.id, [entry(1, None, State.PENDING)]) for run in runs]
    batch.position = 1
    ended: dict[str, Any] = {"tries": 3, "ended_at": now - 10}
    batch.records = changes(
        owed(OTHER, "blue-run", "blue"),
        owed(DELIVERED, **ended, status=200, answer="thanks\x1b[2J\nagain"),
        owed(FAILED, **ended, status=503, answer="busy", error="answered 503"),
        owed(PENDING, error="answered 500", status=500),
    )
    write(database, batch)
