"""Runs and batches to store, the lease to store them under, and everything a store can be asked."""

from typing import Any

import hypothesis.strategies as st
import msgspec
from msgspec.structs import replace

from interlock.core.decisions import Batch
from interlock.core.step import MACHINE
from interlock.core.timetable.table import ScheduleRow
from interlock.core.transition import UPDATE_ROW, created_row
from interlock.model.audit import AuditEntry, AuditHead, AuditKind, chained
from interlock.model.bulk import BulkRequest, RunAction
from interlock.model.child_info import Change, ChildInfo, Exit, Kept, Status
from interlock.model.delivery import Delivery, Outgoing
from interlock.model.facets import Facets, Hold
from interlock.model.failure import Outcome
from interlock.model.guard import Constraints
from interlock.model.job import ExecutorKind, Job, Retry
from interlock.model.letter import DeadLetter, LetterCode
from interlock.model.run import CATCH_UP, SCHEDULE, TRIGGER, Run, Transition, backfill
from interlock.model.schedule.schedule import CatchUp, Schedule
from interlock.model.state import TERMINAL, State
from interlock.model.work import FunctionWork, Limits, ProcessWork
from interlock.ports.leases import Lease
from interlock.ports.store import RunFilter, RunRows
from interlock.wire.delivery_request import Sent
from tests.contract.conftest import AnyStore
from tests.helpers.lookups import definition, inputs, known_keys, states
from tests.helpers.records import changes, kept, kept_services, put_jobs

NAME = "scheduler"
BULK = BulkRequest(
    id="b1",
    action=RunAction.CANCEL,
    wanted=RunFilter(states=frozenset({State.RUNNING, State.PRERUN}), job_id="work", tenant="blue", since=1.5),
    actor="ann",
    reason="not needed",
    created_at=1000.5,
    left=7,
)
EXIT = Exit(at=1001.0, code=3, error="no more")
_WEB = ChildInfo(path="services/web", name="web", kind="process", status=Status.STARTING, pid=5, last_exit=EXIT)
CHANGE = Change(
    at=1003.0, path=_WEB.path, before=_WEB, after=msgspec.structs.replace(_WEB, status=Status.RUNNING, restarts=1)
)
OUTGOING = Outgoing("https://one.test/in?key=1", None, "SIGN", "TOKEN", 2.5, "application/json", b'{"a":1}')
DELIVERY = Delivery(
    "d1", "old", "work", "blue", "run.failed", "one.test", "one.test/in", 1000.5, 2000.5, OUTGOING, next_at=1000.5
)
_ENTRY = AuditEntry(number=0, at=1000.125, kind=AuditKind.VERDICT, actor="ann", tenant="blue", subject="old")
FIRST = chained(AuditHead(), msgspec.structs.replace(_ENTRY, detail={"rule": "no-prod", "n": [1, None, {"ä": 0.5}]}))
SECOND = msgspec.structs.replace(_ENTRY, at=1001.0, kind=AuditKind.JOB_CHANGED, tenant="", subject="work", count=7)
ENTRIES = FIRST, chained(AuditHead(FIRST.number, FIRST.hash), SECOND)
SENT = Sent("d1", 0, 1, 1001.5, None, 503, "busy\n☃", "answered 503")
TRIED = replace(DELIVERY, tries=1, next_at=1001.5, status=503, answer="busy\n☃", error="answered 503", seq=2)
LETTER = DeadLetter("old", 1100.0, LetterCode.ORPHANED, "lost", "work", "blue")
POISON = DeadLetter("poison-1", 1101.5, LetterCode.POISON, "no array", worker_id="w-1", raw=b"\x00\xff")
JOB = Job(id="work", lane="team", executor=ExecutorKind.PROCESS, retry=Retry(max_retries=2), deadline=9.5)
NIGHTLY = Job(
    id="nightly",
    schedule=Schedule(cron="0 2 * * *", tz="Europe/Paris", jitter=600.0, catch_up=CatchUp.ALL, catch_up_max=7),
    constraints=Constraints(max_concurrent_runs=3),
    payload={"own": 1, "deep": [None, {"a": 1.5}]},
    work=ProcessWork(command=("cat", "-"), env={"A": None, "B": "b"}, limits=Limits(memory=2**20)),
)
HOURLY = Job(id="hourly", schedule=Schedule(every=3600.0, wait=5.0), work=FunctionWork(function="package.module:name"))
NIGHTLY_ROW: ScheduleRow = ("nightly", "cron 0 2 * * *", 1000.5, 2000.25, 3000.0, True, False, 2500.0)
HOURLY_ROW: ScheduleRow = ("hourly", "every 3600", 1000.5, 2000.25, None, False, True, 0.0)


async def take(store: AnyStore, token: str = "t1") -> Lease:
    """Take a lease that ends at once: any other token may have it next."""
    lease = await store.take(NAME, "tester", token, 0.0)
    assert lease is not None
    return lease


def make_run(run_id: str = "r1", **fields: Any) -> Run:
    given: dict[str, Any] = {
        "id": run_id,
        "job_id": "work",
        "tenant": "default",
        "session": None,
        "idempotency_key": None,
        "created_at": 1000.0,
        "scheduled_at": 1000.0,
        "delay": None,
        "created_by": "tester",
        "deadline_at": None,
        "payload": b"{}",
        "job_version": JOB.version,
        "lane": "main",
        "state": State.SCHEDULED,
        "previous": State.PENDING,
        "reason": "cleared",
        "actor": "scheduler",
        "changed_at": 1000.0,
        "seq": 2,
    }
    return Run(**(given | fields))


def created(*runs: Run) -> Batch:
    return Batch(created=[created_row(run) for run in runs])


def updated(*runs: Run, group: str = "all") -> Batch:
    return Batch(updated={group: [UPDATE_ROW[group](run) for run in runs]})


def entry(seq: int, before: State | None, after: State, reason: str = "because") -> Transition:
    return Transition(seq, before, after, 1000.0 + seq, 1, reason, "scheduler")


def everything_in_one_batch() -> Batch:
    """A batch with something in every field: two new runs, and an end of one that was there. Its log lines have the
    positions 10 and 11, its history 12 to 14, the log of services 15 and 16."""
    end = make_run("old", state=State.ORPHANED, previous=State.RUNNING, seq=5, ended_at=1100.0, error="lost", crashes=3)
    end.origin = CATCH_UP
    batch = created(make_run("new", origin=SCHEDULE), make_run("keyed", idempotency_key="k", tenant="blue"))
    batch.updated = updated(end).updated
    batch.history = [
        ("new", [entry(1, None, State.PENDING), entry(2, State.PENDING, State.SCHEDULED)]),
        ("keyed", [entry(1, None, State.PENDING), entry(2, State.PENDING, State.SCHEDULED)]),
        ("old", [entry(3, State.SCHEDULED, State.DISPATCHED), entry(4, State.DISPATCHED, State.RUNNING)]),
    ]
    batch.keys.taken = [("blue", "k", "keyed", b"digest", 1000.0)]
    batch.jobs = [JOB]
    batch.schedules = {"nightly": NIGHTLY_ROW, "hourly": HOURLY_ROW, "never there": None}
    batch.inputs.checkpoints = [("old", b'{"at":7}')]
    batch.inputs.copied = [("new", "keyed", True), ("new", "old", True), ("keyed", "new", False)]
    batch.logs.lines = [
        ("old", 1, 1, 1001.5, "info", "first", "app"),
        ("old", 1, 2, 1001.75, "error", "second\nline", "app"),
    ]
    batch.audit = list(ENTRIES)
    batch.records = put_jobs(NIGHTLY, JOB, HOURLY, gone=["work", "never there"])
    batch.records |= kept(web=Kept(resume_id="1", last_exit=EXIT), gone=None)
    batch.records |= changes(TRIED, replace(DELIVERY, id="d2", order=None))
    batch.records |= changes(BULK, replace(LETTER, replayed_as="new"), POISON, gone=[(DeadLetter, "gone")])
    batch.service_log = [
        ("web", 7, 1002.0, "stdout", "listening", None),
        ("web", 8, 1003.0, "status", "running", msgspec.json.encode(CHANGE)),
    ]
    batch.position = 10
    return batch


async def listed(store: AnyStore, wanted: RunFilter | None = None, limit: int = 1000) -> list[str]:
    """The ids of all runs that are wanted, page by page."""
    return [run.id for page in await pages(store, wanted, limit) for run in page.runs]


async def pages(store: AnyStore, wanted: RunFilter | None = None, limit: int = 1000) -> list[RunRows]:
    found = [await store.runs(wanted or RunFilter(), None, limit)]
    while found[-1].next is not None:
        found.append(await store.runs(wanted or RunFilter(), found[-1].next, limit))
    return found


async def dead_letters(store: AnyStore) -> list[DeadLetter | None]:
    """The dead letters in the order they were stored."""
    page = await store.records(DeadLetter)
    return [await store.record(DeadLetter, letter.id) for letter in reversed(page.records)]


async def everything(store: AnyStore) -> dict[str, Any]:
    """All that can be read from a store in which `everything_in_one_batch` may be, in a form that compares."""
    ids = ["old", "new", "keyed", "r1", "r2", "unknown"]
    snapshot = await store.load(10_000, MACHINE.records)
    runs = {one: await store.run(one) for one in ids}
    return {
        "live": sorted(map(repr, snapshot.runs)),
        "listed": [repr(run) for run in (await store.runs(RunFilter(), None, 1000)).runs],
        "jobs": sorted(map(repr, snapshot.jobs)),
        "log sizes": snapshot.log_sizes,
        "log marks": snapshot.log_marks,
        "positions": (snapshot.position, await store.position()),
        "events": (await store.events(0, 1000)).events,
        "runs": {one: None if run is None else repr(run) for one, run in runs.items()},
        "histories": {one: await store.history(one) for one in ids},
        "inputs": await inputs(store, ids),
        "logs": {one: await store.logs(one) for one in ids},
        "letters": await dead_letters(store),
        "keys": await known_keys(store, [("blue", "k"), ("default", "k"), ("default", "key")]),
        "states": await states(store, ids),
        "definitions": [await definition(store, job.version) for job in (JOB, NIGHTLY)],
        "records": snapshot.records,
        "schedules": sorted(map(repr, snapshot.schedules)),
        "bulks": [snapshot.reaches, await store.record(BulkRequest, "b1"), await store.record(BulkRequest, "unknown")],
        "deliveries": await store.records(Delivery),
        "audit": await store.audit(0, 1000),
        "owed": (await store.due_times(Delivery), await store.due(Delivery, "one.test", 1e9, 10)),
        "kept": await kept_services(store),
        "service log": {one: await store.service_log(one) for one in ("web", "unknown")},
    }


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
TIMES = st.floats(0, 1e11)
COUNTS = st.integers(0, 2**63 - 1)
RUNS = st.builds(
    Run,
    id=TEXT.filter(bool),
    job_id=TEXT,
    tenant=TEXT,
    session=st.none() | TEXT,
    idempotency_key=st.none() | TEXT,
    created_at=TIMES,
    scheduled_at=TIMES,
    delay=st.none() | st.floats(0, 1e10),
    deadline_at=st.none() | TIMES,
    payload=st.binary(max_size=100),
    job_version=TEXT,
    lane=TEXT,
    state=st.sampled_from(State),
    previous=st.none() | st.sampled_from(State),
    reason=TEXT,
    actor=TEXT,
    changed_at=TIMES,
    seq=COUNTS,
    attempt=COUNTS,
    fence=COUNTS,
    failures=COUNTS,
    crashes=COUNTS,
    worker_id=st.none() | TEXT,
    due_at=st.none() | TIMES,
    started_at=st.none() | TIMES,
    attempt_started_at=st.none() | TIMES,
    stop=st.none() | st.sampled_from(["cancel", "timeout", "attempt_timeout"]),
    stop_reason=st.none() | TEXT,
    stop_actor=st.none() | TEXT,
    ended_at=st.none() | TIMES,
    outcome=st.none() | st.sampled_from(Outcome),
    exit_code=st.none() | st.integers(-255, 255),
    heartbeats=COUNTS,
    has_checkpoint=st.integers(0, 1),
    origin=st.none() | st.sampled_from([SCHEDULE, CATCH_UP, TRIGGER, backfill(4)]),
    facets=st.none() | st.builds(Facets, hold=st.builds(Hold, by=TEXT, at=TIMES)),
    error=st.none() | TEXT,
    result=st.none() | st.binary(max_size=100),
)
ENDS = sorted(TERMINAL)
