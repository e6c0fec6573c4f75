"""An engine counts what it commits and refuses, and tells whoever asks."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from interlock.model.exposition import exposition
from interlock.wire import message as m
from interlock.wire import request as r
from tests.engine.bench import Bench, SlowStore, on_virtual_time, pass_time, until

run_test = on_virtual_time


def values(bench: Bench) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """What a client is answered, as Prometheus reads it."""
    bench.client.say(r.AskMetrics(999))
    report = bench.client.of(r.ValueAnswer)[-1]
    families = text_string_to_metric_families(exposition(report.value))
    return {(one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples}


@pytest.mark.behaviour("OBS-1")
async def test_an_engine_tells_what_it_has_committed_refused_and_lost() -> None:
    store = SlowStore()
    store.takes = 0.2
    bench = Bench(store)
    await bench.start()
    worker = bench.worker("one")
    bench.submit()
    await until(lambda: bool(worker.of(m.Dispatch)))
    sent = worker.of(m.Dispatch)[0]
    worker.say(m.Finished(sent.run_id, sent.fence, "succeeded", b"null"))
    await until(lambda: bool(worker.of(m.Settled)))
    bench.client.say(r.Submit(50, [r.NewRun("nothing", b"{}")]))
    store.failing = True
    bench.submit()
    await until(lambda: len(bench.client.of(m.Problem)) == 2)
    assert values(bench)["interlock_store_available", frozenset()] == 0
    store.failing = False
    # What was just told is told again for a moment.
    await until(lambda: values(bench)["interlock_store_available", frozenset()] == 1)
    found = values(bench)
    topic = ("topic", "job")
    assert found["interlock_runs_received_total", frozenset({topic})] == 1
    assert found["interlock_runs_dispatched_total", frozenset({topic})] == 1
    assert found["interlock_runs_completed_total", frozenset({topic, ("status", "succeeded")})] == 1
    assert found["interlock_submits_refused_total", frozenset({("code", "unknown_job")})] == 1
    assert found["interlock_submits_refused_total", frozenset({("code", "store_unavailable")})] == 1
    assert found["interlock_recoveries_total", frozenset()] == 1
    assert found["interlock_leases_lost_total", frozenset()] == 0
    age = found["interlock_last_pass_age_seconds", frozenset()]
    await pass_time(0.05)
    later = values(bench)["interlock_last_pass_age_seconds", frozenset()]
    assert later == pytest.approx(age + 0.05, abs=0.001)
    assert found["interlock_store_position", frozenset()] == 2
    commits = found["interlock_commit_duration_seconds_count", frozenset()]
    assert found["interlock_commit_duration_seconds_sum", frozenset()] == pytest.approx(0.2 * commits)
    await bench.stop()
