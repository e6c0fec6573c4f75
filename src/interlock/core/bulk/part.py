"""Bulk requests, as a part of the machine."""

from interlock.core.bulk import requests, rerun
from interlock.core.bulk.table import Bulks
from interlock.core.facts import Snapshot, needs_run
from interlock.core.part import Part
from interlock.core.state import SchedulerState
from interlock.model.bulk import BulkRequest, RunAction
from interlock.model.run import Now
from interlock.wire.letter_request import Replay
from interlock.wire.request import StartBulk
from interlock.wire.run_request import CancelRun, RetryRun


def _load(state: SchedulerState, snapshot: Snapshot, now: Now) -> None:
    bulks = state.of(Bulks)
    for bulk in snapshot.of(BulkRequest):
        bulks.requests[bulk.id] = bulk
        if bulk.ended_at is None:
            reach = 0 if bulk.action is RunAction.RETRY else snapshot.reaches[bulk.id]
            tenant, met = bulk.wanted.tenant, snapshot.runs[:reach]
            bulks.walks[bulk.id] = [run for run in met if tenant in (None, run.tenant)]


BULK = Part(
    name="bulk",
    slices=(Bulks,),
    handlers={
        CancelRun: requests.cancel,
        RetryRun: rerun.retry_one,
        Replay: rerun.retry_one,
        StartBulk: requests.start,
    },
    needs={
        CancelRun: needs_run,
        RetryRun: rerun.needs_run_again,
        Replay: rerun.needs_run_again,
        StartBulk: rerun.needs_page,
    },
    asks=(rerun.needs_next_page,),
    alarms={rerun.UNREAD: rerun.ask_again},
    records=(BulkRequest,),
    loads=(_load,),
    explains=(requests.explain,),
    hears=(requests.proceed,),
    has_more=(lambda state: bool(state.of(Bulks).walks) and not state.of(Bulks).is_unread,),
)
