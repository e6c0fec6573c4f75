"""What clients ask beside submitting: waits that are given up, progress, and whether the scheduler gets on."""

import pytest

from interlock.core.attempts.log_table import Logs
from interlock.interface.run_view import info_of
from interlock.model.explanation import Explanation, Obstacle, ReasonKind
from interlock.model.facets import ProgressInfo
from interlock.model.state import TERMINAL, State
from interlock.wire import message as m
from interlock.wire import request as r
from tests.engine.bench import Bench, SlowStore, on_virtual_time, pass_time, running, until

run_test = on_virtual_time


async def asked_during_a_write() -> tuple[Bench, str]:
    """An engine whose pass has taken a question for a run, and waits for the write that is under way."""
    store = SlowStore()
    bench = Bench(store)
    await bench.start()
    bench.submit()
    await until(lambda: bool(bench.client.of(r.Accepted)))
    run_id = bench.client.of(r.Accepted)[0].run_ids[0]
    store.takes = 0.5
    bench.submit()
    await pass_time(0.1)
    bench.client.say(r.Ask(90, run_id, True))
    await pass_time(0.1)
    return bench, run_id


async def test_a_wait_given_up_while_a_pass_is_under_way_is_forgotten() -> None:
    bench, run_id = await asked_during_a_write()
    bench.client.say(r.Forget(90))
    bench.client.say(r.Ask(91, run_id, True))
    await until(lambda: len(bench.client.of(r.Accepted)) == 2)
    worker = bench.worker("one")
    await until(lambda: len(worker.of(m.Dispatch)) == 2)
    for sent in worker.of(m.Dispatch):
        worker.say(m.Finished(sent.run_id, sent.fence, "succeeded", b"null"))
    await until(lambda: bool(bench.client.of(r.RunReport)))
    await pass_time(2)
    assert [report.request for report in bench.client.of(r.RunReport)] == [91]
    await bench.stop()


async def test_a_client_that_is_gone_is_not_answered_by_a_pass_under_way() -> None:
    bench, _ = await asked_during_a_write()
    bench.client.close()
    await until(lambda: len(bench.store.runs_by_id) == 2)
    await pass_time(2)
    assert bench.engine.requests.waiting == {}
    await bench.stop()


async def test_who_waits_for_a_run_whose_end_could_not_be_stored_waits_on(bench: Bench, store: SlowStore) -> None:
    worker = bench.worker("one")
    bench.submit()
    await until(lambda: bool(worker.of(m.Dispatch)))
    (sent,) = worker.of(m.Dispatch)
    store.takes = 1.0
    worker.say(m.Finished(sent.run_id, sent.fence, "succeeded", b"1"))
    await pass_time(0.2)
    store.failing = True
    bench.client.say(r.Ask(50, sent.run_id, True))
    await pass_time(3)
    assert bench.client.of(m.Problem) == []
    store.failing, store.takes = False, 0.0
    await until(lambda: bench.engine.present.available)
    back = bench.worker("one", m.Held(sent.run_id, sent.fence))
    back.say(m.Finished(sent.run_id, sent.fence, "succeeded", b"1"))
    await until(lambda: bool(bench.client.of(r.RunReport)))
    assert bench.client.of(r.RunReport)[0].state is State.SUCCEEDED


@pytest.mark.behaviour("RUN-21")
async def test_an_explanation_names_faults_of_workers_and_waits_until_an_end_is_stored(
    bench: Bench, store: SlowStore
) -> None:
    bench.submit()
    await until(lambda: bool(bench.client.of(r.Accepted)))
    run_id = bench.client.of(r.Accepted)[0].run_ids[0]
    bench.engine.present.peers.faults["w1"] = m.Unready("w1-7-1", "", "lifespan: no database", "")
    bench.client.say(r.AskExplanation(50, run_id), r.AskExplanation(51, "nothing"))
    await until(lambda: bool(bench.client.of(m.Problem)))
    first = bench.client.values(Explanation)[0]
    assert [(one.id, one.obstacle) for one in first.workers] == [("w1", Obstacle.FAULT)]
    assert [one.kind for one in first.reasons] == [ReasonKind.NO_WORKER]
    assert (bench.client.of(m.Problem)[0].request, bench.client.of(m.Problem)[0].code) == (51, "unknown_run")
    worker = bench.worker("one")
    await until(lambda: bool(worker.of(m.Dispatch)))
    (sent,) = worker.of(m.Dispatch)
    store.takes = 1.0
    worker.say(m.Finished(run_id, sent.fence, "succeeded", b"1"))
    await pass_time(0.2)
    bench.client.say(r.AskExplanation(52, run_id))
    await pass_time(0.2)
    assert len(bench.client.values(Explanation)) == 1
    await until(lambda: len(bench.client.values(Explanation)) == 2)
    assert bench.client.values(Explanation)[1].state is State.SUCCEEDED


@pytest.mark.behaviour("RUN-20")
async def test_progress_is_told_at_once_even_while_a_write_hangs(bench: Bench, store: SlowStore) -> None:
    worker = bench.worker("one")
    bench.submit()
    await until(lambda: bool(worker.of(m.Dispatch)))
    sent = worker.of(m.Dispatch)[0]
    worker.say(m.Started(sent.run_id, sent.fence), m.Progress(sent.run_id, sent.fence, 40.0, "far"))
    await until(lambda: bench.engine.state.of(Logs).progress != {})
    store.takes = 100.0
    bench.submit()
    await pass_time(0.1)
    bench.client.say(r.AskProgress(70, sent.run_id), r.AskProgress(71, "unknown"))
    assert bench.client.of(r.ValueAnswer) == [
        r.ValueAnswer(70, ProgressInfo(40.0, "far")),
        r.ValueAnswer(71, None),
    ]


@pytest.mark.behaviour("RUN-20")
@pytest.mark.parametrize("outcome", ["succeeded", "failed_fatal", "cancelled"])
async def test_progress_right_before_the_end_is_told_and_kept(bench: Bench, outcome: str) -> None:
    worker = bench.worker("one")
    bench.client.say(r.WatchNews(60, True))
    bench.submit()
    await until(lambda: bool(worker.of(m.Dispatch)))
    sent = worker.of(m.Dispatch)[0]
    key = sent.run_id, sent.fence
    worker.say(m.Progress(*key, 50.0, "half"), m.Progress(*key, 100.0, "done"), m.Finished(*key, outcome, b"1"))
    await until(lambda: bench.store.runs_by_id[sent.run_id].state in TERMINAL)
    await pass_time(0.2)
    told = [one for news in bench.client.of(r.News) for one in news.progress]
    assert told == [(sent.run_id, "job", "default", 100.0, "done")]
    assert info_of(bench.store.runs_by_id[sent.run_id]).progress == ProgressInfo(100.0, "done")


@pytest.mark.behaviour("OBS-3")
async def test_the_status_tells_of_work_that_nobody_takes(bench: Bench) -> None:
    def starved() -> float:
        bench.client.say(r.AskStatus(80))
        return bench.client.of(r.StatusReport)[-1].starved

    await pass_time(20)
    assert starved() == 0.0, "there is nothing to do"
    bench.submit()
    await pass_time(20)
    assert starved() == pytest.approx(20, abs=1.1)
    worker = bench.worker("one")
    await until(lambda: bool(worker.of(m.Dispatch)))
    await pass_time(2)
    assert starved() == 0.0
    # From now on it says nothing: after three beats that do not come, it takes no work.
    await pass_time(60)
    assert starved() > 20
    sent = worker.of(m.Dispatch)[-1]
    worker.say(m.Finished(sent.run_id, sent.fence, "succeeded", b"null"))
    await pass_time(2)
    assert starved() == 0.0


@pytest.mark.behaviour("OBS-3")
async def test_the_status_tells_of_a_write_that_hangs() -> None:
    store = SlowStore()
    bench = Bench(store, lease_ttl=60.0)
    await bench.start()
    await pass_time(5)
    store.takes = 30.0
    bench.submit()
    await pass_time(12)
    bench.client.say(r.AskStatus(80))
    status = bench.client.of(r.StatusReport)[-1]
    assert status.since_pass > 10
    assert status.since_write > 10
    await until(lambda: bool(bench.client.of(r.Accepted)))
    store.takes = 0.0
    await pass_time(60)  # until what began meanwhile is written
    bench.client.say(r.AskStatus(81))
    status = bench.client.of(r.StatusReport)[-1]
    assert status.since_pass < 2
    assert status.since_write < 5
    await bench.stop()


async def test_the_position_told_is_one_that_is_stored(bench: Bench, store: SlowStore) -> None:
    bench.client.say(r.WatchNews(60, True))
    assert bench.client.of(r.StatusReport)[-1].position == 0
    store.takes = 0.5
    bench.submit()
    await pass_time(0.1)
    bench.client.say(r.AskStatus(61))
    assert bench.client.of(r.StatusReport)[-1].position == 0, "it is under way"
    store.failing = True
    await until(lambda: bool(bench.client.of(m.Problem)))
    store.failing, store.takes = False, 0.0
    await until(lambda: bench.engine.present.available)
    bench.submit()
    await until(lambda: bool(bench.client.of(r.Accepted)))
    assert [news.position for news in bench.client.of(r.News)][-1] == await store.position() == 1
    run = store.runs_by_id[bench.client.of(r.Accepted)[0].run_ids[0]]
    assert run.state is State.SCHEDULED


async def test_an_answer_nobody_waits_for_any_more_is_not_sent(bench: Bench) -> None:
    worker = bench.worker("w")
    run = await running(bench, worker)
    for request in range(100, 150):
        bench.client.say(r.Ask(request, run.run_id, True))
        await pass_time(0.01)
        if request != 149:
            bench.client.say(r.Forget(request))
    worker.say(m.Finished(run.run_id, run.fence, "succeeded", b"1"))
    await until(lambda: bool(bench.client.of(r.RunReport)))
    await pass_time(1)
    assert [one.request for one in bench.client.of(r.RunReport)] == [149]


async def test_who_waits_is_not_told_that_nothing_was_changed(bench: Bench, store: SlowStore) -> None:
    bench.submit()
    await until(lambda: bool(bench.client.of(r.Accepted)))
    (accepted,) = bench.client.of(r.Accepted)
    store.failing = True
    bench.submit()
    bench.client.say(r.Ask(90, accepted.run_ids[0], True))
    await until(lambda: len(bench.client.of(m.Problem)) == 1)
    bench.client.say(r.Ask(91, accepted.run_ids[0], True))
    told = {one.request: one.text for one in bench.client.of(m.Problem)}
    assert "nothing was changed" in told.pop(2)
    assert told
    assert not [text for text in told.values() if "changed" in text]
