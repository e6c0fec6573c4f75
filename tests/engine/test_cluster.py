"""Several schedulers on one store: one leads, the others stand by, and the leader knows the nodes."""

import asyncio
from copy import deepcopy
from typing import Any

import pytest
from msgspec.structs import replace

from interlock.core.decisions import Batch
from interlock.core.state import CoreLimits
from interlock.error import LeaseLost, OutcomeUnknown, StaleEpoch
from interlock.model.cluster import ClusterInfo, NodeFacts
from interlock.model.state import State
from interlock.ports.clock import StoreClock
from interlock.ports.leases import Lease
from interlock.stores.memory import MemoryStore
from interlock.wire import message as m
from interlock.wire import request as r
from interlock.wire.cluster_request import Announce, AskCluster, HandOver
from tests.engine.bench import Bench, Link, LoopClock, SlowStore, on_virtual_time, pass_time, running, until

run_test = on_virtual_time

ALL = ["scheduler", "gateway", "worker"]


def facts(name: str, **fields: Any) -> NodeFacts:
    given: dict[str, Any] = {"instance": f"start of {name}", "roles": ALL, "version": "1", "since": 0.0, "digests": {}}
    return NodeFacts(name=name, **given | fields)


def node(store: SlowStore, name: str, **settings: Any) -> Bench:
    return Bench(store, node=facts(name), **settings)


def announce(bench: Bench, *nodes: NodeFacts, wall: float | None = None, ended: tuple[str, ...] = ()) -> Link:
    link = Link(bench.engine)
    link.say(m.Greeting(m.PROTOCOL))
    for said in nodes:
        link.say(Announce(1, said, bench.engine.present.now() if wall is None else wall, list(ended)))
    return link


async def cluster_of(bench: Bench) -> ClusterInfo:
    bench.client.say(AskCluster(99))
    await until(lambda: bool(bench.client.values(ClusterInfo)))
    found = bench.client.values(ClusterInfo)[-1]
    bench.client.heard.clear()
    return found


async def crash(bench: Bench) -> None:
    """End without a word: the lease stays."""
    bench.task.cancel()
    await asyncio.wait([bench.task])


@pytest.mark.behaviour("LEA-3", "LEA-6")
async def test_a_standby_leads_once_the_lease_is_released() -> None:
    store = SlowStore()
    first, second = node(store, "a"), node(store, "b")
    await first.start()
    standing = asyncio.ensure_future(second.start())
    await pass_time(30.0)
    assert not standing.done()
    run = await running(first, first.worker("w"))
    await first.stop()
    await pass_time(1.1)
    assert standing.done()
    assert store.runs_by_id[run.run_id].state is State.RUNNING
    second.worker("w", m.Held(run.run_id, run.fence, True))
    await pass_time(1.0)
    adopted = second.engine.state.runs[run.run_id]
    assert (adopted.state, adopted.attempt, adopted.fence) == (State.RUNNING, 1, run.fence)
    assert (await cluster_of(second)).epoch == 2
    await second.stop()


@pytest.mark.behaviour("LEA-1", "LEA-6")
async def test_a_standby_leads_once_the_lease_of_a_leader_that_is_gone_has_ended_and_not_before() -> None:
    """It lasts 10 s from its last renewal, and is renewed at least every 3.4 s."""
    store = SlowStore()
    first, second = node(store, "a"), node(store, "b")
    await first.start()
    standing = asyncio.ensure_future(second.start())
    await pass_time(20.0)
    await crash(first)
    await pass_time(6.5)
    assert not standing.done()
    await pass_time(4.6)
    assert standing.done()
    await second.stop()


@pytest.mark.behaviour("LEA-2")
async def test_a_leader_that_stood_still_beyond_its_lease_ends_and_stores_nothing() -> None:
    store = SlowStore()
    first, second = node(store, "a"), node(store, "b")
    await first.start()
    first.engine.owner.renew_at = 1000.0  # as if it had stood still
    standing = asyncio.ensure_future(second.start())
    await until(standing.done, 15.0)
    first.submit()
    with pytest.raises((LeaseLost, StaleEpoch)):
        await asyncio.wait_for(first.task, 120.0)
    assert store.runs_by_id == {}
    assert [problem.code for problem in first.client.of(m.Problem)] != []
    second.submit()
    await until(lambda: len(store.runs_by_id) == 1)
    await second.stop()


@pytest.mark.behaviour("LEA-2")
async def test_a_leader_whose_store_was_away_ends_if_another_led_meanwhile_though_the_lease_is_free() -> None:
    store = SlowStore()
    first = node(store, "a")
    await first.start()
    await until(lambda: bool(store.commits))
    store.failing = True
    first.submit()
    await until(lambda: not first.engine.present.available, 30.0)
    await pass_time(30.0)
    assert not first.task.done(), "nobody else leads"
    other = await MemoryStore.take(store, "main", "b", "token of b", 10.0)
    assert other is not None
    await store.release(other)
    store.failing = False
    with pytest.raises(LeaseLost, match="another scheduler has led since"):
        await asyncio.wait_for(first.task, 5.0)
    assert first.engine.owner.lease is None, "it says that it has lost it"
    assert store.leases["main"].epoch == other.epoch


@pytest.mark.behaviour("LEA-2")
async def test_a_leader_whose_store_was_away_for_longer_than_its_lease_goes_on_if_nobody_else_led() -> None:
    store = SlowStore()
    first = node(store, "a")
    await first.start()
    await until(lambda: bool(store.commits))
    store.failing = True
    first.submit()
    await pass_time(60.0)
    store.failing = False
    await until(lambda: first.engine.present.available)
    assert store.leases["main"].epoch == 2
    await first.stop()


@pytest.mark.behaviour("CLU-1")
async def test_the_leader_names_every_node_and_what_differs_there() -> None:
    bench = node(SlowStore(), "a")
    bench.engine.settings.node.digests.update(jobs="1", policy="2")  # type: ignore[union-attr] # it has one
    await bench.start()
    same, other = facts("b", digests={"jobs": "1", "policy": "2"}), facts("c", digests={"jobs": "7", "policy": "2"})
    announce(bench, same, replace(other, roles=["gateway"]))
    announce(bench, facts("d", digests={"jobs": "1", "policy": "2"}), wall=bench.engine.present.now() + 600.0)
    found = await cluster_of(bench)
    assert [(one.name, one.leads, one.differs) for one in found.nodes] == [
        ("a", True, []),
        ("b", False, []),
        ("c", False, ["jobs"]),
        ("d", False, []),
    ]
    assert [round(one.clock) for one in found.nodes] == [0, 0, 0, 600]
    assert (found.leader, found.epoch) == ("a", 1)
    await pass_time(20.0)
    announce(bench, same)
    await pass_time(20.0)
    assert [one.name for one in (await cluster_of(bench)).nodes] == ["a", "b"]
    announce(bench, same, replace(same, instance="another start"), same)
    assert [(one.name, one.differs) for one in (await cluster_of(bench)).nodes] == [
        ("a", []),
        ("b", ["name"]),
        ("b", ["name"]),
    ]
    await bench.stop()


@pytest.mark.behaviour("CLU-1")
async def test_a_node_that_starts_anew_is_one_node(caplog: pytest.LogCaptureFixture) -> None:
    bench = node(SlowStore(), "a")
    await bench.start()
    for start in range(5):
        announce(bench, facts("a"), facts("b", instance=f"start {start}"))
        await pass_time(4.0)
        announce(bench, facts("b", instance=f"start {start}"))
        found = await cluster_of(bench)
        assert [(one.name, one.differs) for one in found.nodes] == [("a", []), ("b", [])]
        await pass_time(1.0)
    assert "differs" not in caplog.text
    await bench.stop()


@pytest.mark.behaviour("CLU-2")
async def test_the_lead_is_handed_over_only_if_another_scheduler_stands_by() -> None:
    asked: list[bool] = []
    bench = Bench(SlowStore(), node=facts("a"), hand_over=lambda: asked.append(True))
    await bench.start()
    announce(bench, facts("b", roles=["gateway", "worker"]))
    bench.client.say(HandOver(1))
    await until(lambda: bool(bench.client.of(m.Problem)))
    assert (bench.client.of(m.Problem)[0].code, asked) == ("no_standby", [])
    announce(bench, facts("c"))
    bench.client.say(HandOver(2))
    await until(lambda: bool(bench.client.of(r.ValueAnswer)))
    assert asked == [True]
    await bench.stop()


@pytest.mark.behaviour("CLU-2")
async def test_the_lead_is_handed_over_to_the_named_node_or_after_3_s_to_any() -> None:
    store = SlowStore()
    over = asyncio.Event()
    first = Bench(store, node=facts("a"), hand_over=over.set)
    await first.start()
    announce(first, facts("b"), facts("c"))
    first.client.say(HandOver(1, node="d"))
    await until(lambda: bool(first.client.of(m.Problem)))
    assert "'d'; give one of: b, c" in first.client.of(m.Problem)[0].text
    assert not over.is_set()
    first.client.say(HandOver(2, node="c"))
    await asyncio.wait_for(over.wait(), 1.0)
    second, third = node(store, "b", holder="b"), node(store, "c", holder="c")
    standing = asyncio.ensure_future(second.start())
    await pass_time(0.3)  # b looks first
    named = asyncio.ensure_future(third.start())
    await first.stop()
    await pass_time(1.1)
    assert (named.done(), standing.done()) == (True, False)
    third.engine.owner.successor = "nobody"
    await third.stop()
    await pass_time(1.9)
    assert not standing.done()
    await pass_time(2.2)
    assert standing.done()
    await second.stop()


@pytest.mark.behaviour("TIM-18", "CLU-1")
@pytest.mark.parametrize("off", [-600.0, 0.4, 600.0])
async def test_the_time_of_a_leader_is_that_of_the_store(off: float, caplog: pytest.LogCaptureFixture) -> None:
    store, ahead = SlowStore(), 0.0

    def right() -> float:
        return 1_700_000_000.0 + asyncio.get_running_loop().time() - off + ahead

    store._clock = right
    bench = Bench(store, clock=StoreClock(LoopClock()), node=facts("a"))
    await bench.start()
    seen = 0.0 if abs(off) <= 0.5 else off
    assert bench.engine.present.now() == pytest.approx(right() + off - seen)
    assert bench.engine.present.leads_since == pytest.approx(right() + off - seen)
    bench.submit()
    await until(lambda: bool(store.runs_by_id))
    (run,) = store.runs_by_id.values()
    assert run.created_at == pytest.approx(right() + off - seen, abs=1.0)
    announce(bench, facts("b"), wall=right())
    found = await cluster_of(bench)
    assert [node.clock for node in found.nodes] == pytest.approx([seen, seen - off])
    assert (f"the clock of this machine is {off:+.1f} s off" in caplog.text) is bool(seen)
    before = bench.engine.present.now()
    ahead = 30.0  # the clock of the store, or of the machine, was set
    await pass_time(4.0)  # it is compared with every renewal
    assert bench.engine.present.now() == pytest.approx(before + (30.0 if seen else 30.0 - off) + 4.0)
    await bench.stop()


@pytest.mark.behaviour("CLU-1", "OBS-3")
async def test_metrics_have_every_node(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(SlowStore(), node=facts("a", since=5.0, digests={"jobs": "1"}))
    await bench.start()
    announce(bench, facts("b", digests={"jobs": "2"}), wall=bench.engine.present.now() + 600.0)
    await pass_time(2.0)
    bench.client.say(r.AskMetrics(1))
    await until(lambda: bool(bench.client.of(r.ValueAnswer)))
    found = {family.name: family.samples for family in bench.client.of(r.ValueAnswer)[-1].value}
    nodes = {name: [(labels["node"], round(value)) for _, labels, value in found[f"interlock_node_{name}"]]
             for name in ("leads", "silent_seconds", "clock_seconds", "differences")}  # fmt: skip
    assert nodes == {
        "leads": [("b", 0), ("a", 1)],
        "silent_seconds": [("b", 2), ("a", 0)],
        "clock_seconds": [("b", 600), ("a", 0)],
        "differences": [("b", 1), ("a", 0)],
    }
    assert found["interlock_lease_epoch"] == [("", {}, 1.0)]
    assert "clock of node b is +600" in caplog.text
    await bench.stop()


@pytest.mark.behaviour("RET-5")
async def test_a_node_reports_the_end_of_a_worker_that_has_no_process_watch() -> None:
    """Otherwise only its silence would tell, 30 s later."""
    bench = node(SlowStore(), "a", limits=CoreLimits())
    await bench.start()
    run = await running(bench, bench.worker("b-w1-77-host.1"))
    bench.worker("b-w1-777-host.2")
    announce(bench, facts("b"), ended=("b-w1-77",))
    await until(lambda: bench.store.runs_by_id[run.run_id].crashes == 1, 3.0)
    assert list(bench.engine.state.workers) == ["b-w1-777-host.2"]
    await bench.stop()


@pytest.mark.behaviour("ROU-12")
async def test_a_worker_of_a_cluster_learns_how_long_silence_may_last() -> None:
    for own, lease in ((facts("a"), 10.0), (None, 0.0)):
        bench = Bench(SlowStore(), node=own)
        await bench.start()
        assert [welcome.lease for welcome in bench.worker("w").of(m.Welcome)] == [lease]
        await bench.stop()


class ForgetfulStore(SlowStore):
    """Goes back to what it was, as after a failover to a replica that lagged, and says so as PostgreSQL does."""

    def keep(self) -> None:
        self.kept = deepcopy({name: getattr(self, name) for name in vars(MemoryStore())})

    def go_back(self) -> None:
        before, self.lost = len(self.entries), 0
        vars(self).update(self.kept | {"leases": self.leases})
        self.lost = before - len(self.entries)
        self.doubt = True

    lost = 0
    doubt = False

    async def commit(self, batch: Batch, lease: Lease) -> None:
        if self.doubt:
            raise OutcomeUnknown("it ends at another position")
        await super().commit(batch, lease)

    async def take(self, name: str, holder: str, token: str, ttl: float, again: bool = False) -> Lease | None:
        lease = await super().take(name, holder, token, ttl, again)
        self.doubt = False
        lost, self.lost = self.lost, 0
        return lease and replace(lease, lost=lost)


@pytest.mark.behaviour("REC-8")
async def test_a_leader_whose_store_has_gone_back_says_so_and_uses_nothing_of_the_lost_time_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = ForgetfulStore()
    bench = node(store, "a")
    await bench.start()
    worker = bench.worker("w")
    bench.submit()
    await until(lambda: len(worker.of(m.Dispatch)) == 1)
    store.keep()
    bench.submit()
    await until(lambda: len(worker.of(m.Dispatch)) == 2)
    kept, lost = worker.of(m.Dispatch)
    stored, commits = bench.engine.present.stored, len(store.commits)
    store.go_back()
    bench.submit()
    await until(lambda: bench.engine.present.loss is not None)
    await until(lambda: bench.engine.present.available)
    assert "the store has gone back (positions lost: 1); acknowledged runs may be gone" in caplog.text
    worker = bench.worker("w", m.Held(lost.run_id, lost.fence, True))
    await until(lambda: bool(worker.of(m.Stop)) and bool(worker.of(m.Dispatch)))
    assert worker.of(m.Stop)[0].run_id == lost.run_id
    (again,) = worker.of(m.Dispatch)
    assert again.run_id == kept.run_id
    assert again.fence > kept.fence + 1000, "the lost time may have used the next ones"
    assert store.commits[commits].position > stored
    (entry,) = [one for one in (await store.audit(0, 100)).entries if one.kind == "went_back"]
    assert (entry.actor, entry.subject, entry.detail) == ("scheduler", "the database", {"positions": 1})
    bench.client.say(r.AskStatus(98))
    await until(lambda: bool(bench.client.of(r.StatusReport)))
    assert bench.client.of(r.StatusReport)[-1].loss.startswith(
        "the store has gone back (positions lost: 1), found at 20"
    )
    await bench.stop()


@pytest.mark.behaviour("REC-8")
async def test_the_lost_time_ends_by_the_clock_of_the_store_and_beyond_the_positions_a_standby_saw() -> None:
    """Its own clock is set by the take that shows the loss; what was stored in its last second it has not seen."""
    store = ForgetfulStore()
    store.lost = 3
    bench = Bench(store, clock=StoreClock(LoopClock()), node=facts("a"))
    await bench.start()
    loss = bench.engine.present.loss
    assert loss is not None
    assert loss.lost == 3
    assert loss.at == pytest.approx(asyncio.get_running_loop().time(), abs=1.0)
    await until(lambda: bool(store.commits))
    assert store.commits[0].position > 1_000_003
    await bench.stop()
