"""Commits of which nobody knows whether they were stored."""

import asyncio
from typing import Any

import pytest

from interlock.core.decisions import Batch
from interlock.engine.ownership import LEADER
from interlock.error import OutcomeUnknown, StaleEpoch
from interlock.ports.leases import Lease
from interlock.wire import message as m
from interlock.wire import request as r
from tests.engine.bench import Bench, SlowStore, on_virtual_time, pass_time, until

run_test = on_virtual_time
pytestmark = pytest.mark.behaviour("LEA-2", "LEA-5")


class DoubtfulStore(SlowStore):
    """Stores the next batch at once or later, and says only that it may have done so."""

    def __init__(self, after: float | None = None) -> None:
        super().__init__()
        self.after = after
        self.refused: list[str] = []

    async def commit(self, batch: Batch, lease: Lease) -> None:
        if self.after is None:
            return await super().commit(batch, lease)
        after, self.after = self.after, None
        if after:
            self.later = asyncio.get_running_loop().create_task(self._commit_later(after, batch, lease))
        else:
            await super().commit(batch, lease)
        raise OutcomeUnknown("the connection broke")

    async def _commit_later(self, after: float, batch: Batch, lease: Lease) -> None:
        await pass_time(after)
        try:
            await super().commit(batch, lease)
        except StaleEpoch as error:
            self.refused.append(str(error))


async def begun(store: SlowStore, **settings: Any) -> Bench:
    bench = Bench(store, **settings)
    await bench.start()
    await until(lambda: bool(store.commits))
    return bench


def submit(bench: Bench, number: int, key: str | None) -> None:
    bench.client.say(r.Submit(number, [r.NewRun("job", b"{}", idempotency_key=key)]))


@pytest.mark.behaviour("RUN-6")
async def test_a_submit_that_was_stored_is_found_by_its_key() -> None:
    store = DoubtfulStore()
    bench = await begun(store)
    epoch = store.leases[LEADER].epoch
    store.after = 0.0
    submit(bench, 1, "k")
    await until(lambda: bool(bench.client.of(m.Problem)))
    (problem,) = bench.client.of(m.Problem)
    assert (problem.request, problem.code) == (1, "outcome_unknown")
    assert "may have been stored" in problem.text
    assert "nothing was changed" not in problem.text
    await until(lambda: bench.engine.present.available)
    assert store.leases[LEADER].epoch == epoch + 1
    submit(bench, 2, "k")
    await until(lambda: bool(bench.client.of(r.Accepted)))
    assert bench.client.of(r.Accepted)[0].run_ids == list(store.runs_by_id)
    await bench.stop()


async def test_what_is_stored_late_is_refused_because_the_epoch_is_new() -> None:
    store = DoubtfulStore()
    bench = await begun(store)
    store.after = 0.7
    submit(bench, 1, None)
    await until(lambda: bool(bench.client.of(m.Problem)))
    await until(lambda: bench.engine.present.available)
    submit(bench, 2, None)
    await until(lambda: bool(bench.client.of(r.Accepted)))
    await pass_time(1.0)
    assert len(store.refused) == 1
    assert list(store.runs_by_id) == bench.client.of(r.Accepted)[0].run_ids
    assert bench.engine.present.available, "the late commit touched nothing"
    await bench.stop()


async def test_only_the_submits_of_the_commit_itself_are_in_doubt() -> None:
    store = DoubtfulStore()
    bench = await begun(store, batch_runs=4)
    store.takes, store.after = 1.0, 0.0
    submit(bench, 1, None)
    await pass_time(0.1)
    submit(bench, 2, None)  # decided ahead of its commit, which never begins
    await until(lambda: len(bench.client.of(m.Problem)) == 2)
    assert {one.request: one.code for one in bench.client.of(m.Problem)} == {
        1: "outcome_unknown",
        2: "store_unavailable",
    }
    assert "nothing was changed" in bench.client.of(m.Problem)[-1].text
    await until(lambda: bench.engine.present.available)
    assert len(store.runs_by_id) == 1
    await bench.stop()


@pytest.mark.parametrize("seconds", [8.5, 60.0])
async def test_a_commit_is_awaited_until_the_lease_would_end(seconds: float) -> None:
    """The lease of 9 s is renewed every 3, so it ends 6 to 9 s after any moment; its last renewal is awaited here."""
    store = SlowStore()
    bench = await begun(store, lease_ttl=9.0)
    await until(lambda: store.renewals == 2)
    store.takes = seconds
    bench.submit()
    began = asyncio.get_running_loop().time()
    await until(lambda: bool(bench.client.of(m.Problem) or bench.client.of(r.Accepted)), 100.0)
    passed = asyncio.get_running_loop().time() - began
    if seconds < 9:
        assert not bench.client.of(m.Problem)
    else:
        assert bench.client.of(m.Problem)[0].code == "outcome_unknown"
        assert 9.0 <= passed <= 10.1, "a second more, in case the scheduler itself stood still"
        store.takes = 0.0
        bench.submit()
        await until(lambda: bool(bench.client.of(r.Accepted)))
        assert len(store.runs_by_id) == 1
    await bench.stop()


async def test_calls_for_the_lease_that_are_not_answered_count_as_failed() -> None:
    class Mute(SlowStore):
        is_mute = False

        async def take(self, name: str, holder: str, token: str, ttl: float, again: bool = False) -> Lease | None:
            await self._answer()
            return await super().take(name, holder, token, ttl, again)

        async def renew(self, lease: Lease, ttl: float) -> Lease:
            await self._answer()
            return await super().renew(lease, ttl)

        async def _answer(self) -> None:
            if self.is_mute:
                await asyncio.get_running_loop().create_future()

    store = Mute()
    bench = await begun(store, lease_ttl=9.0)
    await until(lambda: store.renewals == 1)
    store.is_mute = True
    await until(lambda: not bench.engine.present.available, 30.0)
    assert store.renewals == 1
    store.is_mute = False
    await until(lambda: bench.engine.present.available)
    await bench.stop()
