"""The one transition of a run that has ended, from the command to the store, its events and whoever asks."""

from typing import cast

import pytest

from interlock.model.bulk import ActedOn
from interlock.model.policy.document import PolicyDocument
from interlock.model.policy.output import Finding, OutputPolicy, Scanned
from interlock.model.policy.scanner import OutputAction, ScannerKind, ScannerSpec
from interlock.model.policy.verdict import Ruling
from interlock.model.state import State
from interlock.policy.policy import Policy
from interlock.ports.store import EventFilter
from interlock.wire import message as m
from interlock.wire import request as r
from interlock.wire.output_request import ReportScans
from interlock.wire.run_request import CancelRun
from tests.contract.conftest import AnyStore
from tests.contract.samples import dead_letters
from tests.engine.bench import Bench, Link, SlowStore, until

FOUND = (Finding("secrets", "key", "$", 0, 8, ""),)
SCANS = PolicyDocument(
    id="scans",
    default_decision=Ruling.ALLOW,
    output=OutputPolicy(scanners=(ScannerSpec(scanner=ScannerKind.SECRETS),)),
)


async def _finished(bench: Bench, worker: Link) -> str:
    before = len(worker.of(m.Dispatch))
    bench.submit()
    await until(lambda: len(worker.of(m.Dispatch)) > before)
    run = worker.of(m.Dispatch)[-1]
    worker.say(m.Finished(run.run_id, run.fence, "succeeded", b'"secret"'))
    await until(lambda: any(one.run_id == run.run_id for one in worker.of(m.Settled)))
    return run.run_id


@pytest.mark.behaviour("RUN-4", "RUN-2", "RUN-3")
async def test_a_success_is_quarantined_after_its_end_and_once(store: AnyStore) -> None:
    bench = Bench(cast(SlowStore, store))
    bench.engine.present.catalog.policy = Policy(SCANS)
    await bench.start()
    worker = bench.worker("w")
    run_id = await _finished(bench, worker)
    ended = await store.run(run_id)
    bench.client.say(r.WatchNews(50, True))
    position = await store.position()
    found = [Scanned(one, OutputAction.QUARANTINE, FOUND, 1) for one in (run_id, "unknown")]
    for _ in range(2):
        bench.engine.inbox.post("scanner", ReportScans(1, 100, Policy(SCANS).digest, found))
    await until(lambda: bool(bench.client.of(r.News)))
    bench.client.say(CancelRun(51, run_id, "too late"))
    bench.client.say(r.AskHistory(52, run_id))
    await until(lambda: bool(bench.client.values(ActedOn)) and bool(bench.client.values(list)))

    run = await store.run(run_id)
    assert ended is not None
    assert run is not None
    assert (run.state, run.previous, run.actor) == (State.OUTPUT_QUARANTINED, State.SUCCEEDED, "scheduler")
    assert (run.ended_at, run.seq) == (ended.ended_at, ended.seq + 1)
    last = (await store.history(run_id))[-1]
    assert (last.before, last.after, last.reason) == (run.previous, run.state, "key found")
    (event,) = (await store.events(position, 10, EventFilter(run_id=run_id))).events
    assert getattr(event, "transitions", None) == [last]
    assert [news.position for news in bench.client.of(r.News)] == [event.position]
    assert bench.client.values(list)[0][-1] == last
    assert bench.client.values(ActedOn)[0].state is State.OUTPUT_QUARANTINED
    assert [(one.id, one.code) for one in await dead_letters(store) if one] == [(run_id, "output_quarantined")]

    next_run = await store.run(await _finished(bench, worker))
    assert next_run is not None
    assert next_run.state is State.SUCCEEDED, "the engine goes on"
    assert not bench.engine.state.runs
    await bench.stop()
