"""Dead letters in a database, before a server starts with it."""

import time
from pathlib import Path

from interlock.model.letter import DeadLetter, LetterCode
from interlock.model.state import State
from tests.contract.samples import created, entry, make_run
from tests.helpers.records import changes
from tests.helpers.written import write

POISON = "poison-0a1b2c"


def bury(database: Path, many: int = 0) -> None:
    """Store letters, oldest first: of a job that is gone, of two runs of `add` in red, of one of `echo` in blue, and of
    a message that cannot be read; before these, `many` of `echo`."""
    now = time.time()
    rows = [(f"many-{place:04}", "echo", "red", LetterCode.TIMEOUT, b"{}") for place in range(many)]
    rows += [
        ("gone-run", "gone", "red", LetterCode.FAILED, b"{}"),
        ("red-one", "add", "red", LetterCode.FAILED, b'{"left":1,"password":"pst"}'),
        ("red-two", "add", "red", LetterCode.ORPHANED, b'{"left":2}'),
        ("blue-one", "echo", "blue", LetterCode.SAFETY_DENIED, b'{"value":3}'),
    ]
    times = {"created_at": now - 90, "scheduled_at": now - 90, "changed_at": now - 60, "ended_at": now - 60}
    runs = [
        make_run(run_id, tenant=tenant, job_id=job, state=State.FAILED, payload=payload, error="boom", **times)
        for run_id, job, tenant, _, payload in rows
    ]
    batch = created(*runs)
    batch.history = [(run.id, [entry(1, None, State.PENDING)]) for run in runs]
    batch.position = 100  # beyond the other helpers', which may have written before
    poison = DeadLetter(POISON, now - 50, LetterCode.POISON, "bad", worker_id="w-1", raw=b"\xc1")
    dead = [DeadLetter(run_id, now - 60, code, "boom", job, tenant) for run_id, job, tenant, code, _ in rows]
    batch.records = changes(*dead, poison)
    write(database, batch)
