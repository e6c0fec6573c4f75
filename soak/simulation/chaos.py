"""What goes wrong, when: one fault after the other, by seed, until it is told to stop; then everything is healed."""

import asyncio
from collections.abc import Callable

from interlock.engine.ownership import LEADER
from soak.simulation.cluster import Cluster, Scheduler
from soak.simulation.loop import Process
from soak.simulation.replica import Replica
from soak.simulation.routes import last_profile_of
from soak.simulation.scenario import LEASE_TTL


class Chaos:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._rng = cluster.random("chaos")
        self._over = False
        self.cut = 0  # ways that were cut
        self.lost = 0  # runs of the stores that went back
        self._calm_until = 0.0  # a store that goes back is found out only by a scheduler that survives
        faults = cluster.scenario.faults
        # The search for the next leader takes seconds, whatever the heartbeat is.
        has_time = cluster.scenario.is_cluster and cluster.scenario.heartbeat >= LEASE_TTL
        is_stable = has_time and not cluster.scenario.routes
        cluster.invariants.workers_are_well = is_stable and not faults.harm_workers
        choices: list[tuple[bool, Callable[[], None]]] = [
            (faults.kill_scheduler, self._kill_scheduler),
            (faults.restart_scheduler, self._restart_scheduler),
            (faults.pause_scheduler, self._pause_scheduler),
            (faults.replace_scheduler, self._replace_scheduler),
            (faults.fail_store, self._fail_store),
            (faults.kill_worker, self._kill_worker),
            (faults.stop_worker, self._stop_worker),
            (faults.pause_worker, self._pause_worker),
            (faults.isolate_worker, self._isolate_worker),
            (faults.break_links, cluster.network.break_one),
            (faults.jump_clock, self._jump_clock),
            (faults.kill_worker and cluster.scenario.guards, self._kill_sender),
            (faults.kill_worker and cluster.scenario.scans, self._kill_inspector),
            *[(cluster.scenario.replica != "", self._fall_behind)] * 3,
            *[(faults.cut_ways and cluster.scenario.is_cluster, self._cut_ways)] * 3,
            (faults.pause_scheduler and cluster.scenario.is_cluster, self._disturb_standby),
        ]
        self._choices = [fault for enabled, fault in choices if enabled]

    async def run(self) -> None:
        cluster, rng, faults = self._cluster, self._rng, self._cluster.scenario.faults
        network, store = cluster.network.faults, cluster.store_faults
        network.longest_delay = rng.choice((0.005, 0.05, 0.5))
        if faults.stall_links:
            network.lag = rng.uniform(0, 0.005)
        store.longest_write = rng.choice((0.002, 0.02, 0.2))
        if faults.drop_messages:
            network.drop = rng.uniform(0, 0.05)
        if faults.duplicate_messages:
            network.duplicate = rng.uniform(0, 0.1)
        if faults.crash_at_commit:
            store.crash = rng.uniform(0, 0.03)
        if faults.fail_store:
            store.fail = rng.uniform(0, 0.02)
        if faults.doubt_writes:
            store.doubt = rng.uniform(0, 0.03)
        if faults.disturb_answers:
            answers = cluster.answer_faults
            answers.lose, answers.repeat, answers.delay = rng.uniform(0, 0.3), rng.uniform(0, 0.5), rng.uniform(0, 0.5)
        while not self._over:
            await asyncio.sleep(rng.expovariate(1 / cluster.scenario.fault_every))
            if self._choices and not self._over and cluster.loop.time() >= self._calm_until:
                rng.choice(self._choices)()

    def stop(self) -> None:
        """No more faults, and what can be mended is."""
        cluster = self._cluster
        self._over = True
        network, store, answers = cluster.network.faults, cluster.store_faults, cluster.answer_faults
        store.unconfirmed = False
        answers.lose, answers.repeat, answers.delay = 0.0, 0.0, 0.0
        network.longest_delay, network.drop, network.duplicate, network.lag = 0.01, 0.0, 0.0, 0.0
        store.longest_write, store.fail, store.crash, store.doubt, store.down_until = 0.01, 0.0, 0.0, 0.0, 0.0
        cluster.network.cuts.clear()
        cluster.invariants.spans.faults_end()
        if cluster.receivers is not None:
            cluster.receivers.well = True
        if cluster.invariants.policies.service is not None:
            cluster.invariants.policies.service.well = True
        if cluster.scenario.routes:
            cluster.replace_workers(last_profile_of)
        cluster.trace.add("the faults are over")

    # ── faults ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _kill_scheduler(self) -> None:
        scheduler = self._cluster.scheduler
        if scheduler is None:
            return
        self._cluster.trace.add(f"fault: {scheduler.process.name} is killed")
        scheduler.process.kill()

    def _restart_scheduler(self) -> None:
        scheduler = self._cluster.scheduler
        if scheduler is None or scheduler.process.paused:
            return
        self._cluster.trace.add(f"fault: {scheduler.process.name} is told to stop")
        scheduler.process.call_soon(scheduler.engine.drain)
        later = self._cluster.loop.time() + self._rng.choice((0.0, 0.5, 4.0))
        scheduler.process.call_at(later, scheduler.engine.stop)

    def _pause_scheduler(self) -> None:
        scheduler = self._cluster.scheduler
        if scheduler is None or scheduler.process.paused:
            return
        seconds = self._rng.choice((0.5, 5.0, 20.0)) * self._rng.random()
        self._cluster.trace.add(f"fault: {scheduler.process.name} stands still for {seconds:.3f}s")
        scheduler.process.pause()
        self._cluster.loop.call_later(seconds, scheduler.process.resume)

    def _replace_scheduler(self) -> None:
        """Another one takes over while this one stands still. It comes back believing that nothing has happened."""
        cluster, scheduler = self._cluster, self._cluster.scheduler
        if scheduler is None or scheduler.process.paused:
            return
        cluster.trace.add(f"fault: {scheduler.process.name} stands still and is replaced")
        scheduler.process.pause()
        seconds = LEASE_TTL * self._rng.uniform(1, 6 if cluster.scenario.is_cluster else 3)
        cluster.loop.call_later(seconds, scheduler.process.resume)
        cluster.loop.call_later(seconds + self._rng.uniform(0, 5), scheduler.process.kill)
        if not cluster.scenario.is_cluster:
            cluster.start_scheduler()

    def _disturb_standby(self) -> None:
        """Kill a scheduler that does not lead, or let it stand still."""
        cluster, rng = self._cluster, self._rng
        others = [one for one in cluster.schedulers.values() if one is not cluster.scheduler and not one.process.paused]
        if not others:
            return
        process, seconds = rng.choice(others).process, rng.choice((0.0, LEASE_TTL, 20.0)) * rng.random()
        cluster.trace.add(f"fault: {process.name} stands still for {seconds:.3f}s, or ends")
        if seconds:
            process.pause()
            cluster.loop.call_later(seconds, process.resume)
        else:
            process.kill()

    def _cut_ways(self) -> None:
        """Cut one way, or both, between a scheduler and the store, a worker or a client."""
        cluster, rng = self._cluster, self._rng
        ends: list[Process | None] = [None, *(worker.process for worker in cluster.workers.values())]
        ends += [link.near.owner for link in cluster.network.links if link.is_client]
        nodes = list(cluster.schedulers)
        if not nodes:
            return
        is_of_leader = cluster.scheduler is not None and rng.random() < 0.7
        node = cluster.scheduler.process if is_of_leader and cluster.scheduler is not None else rng.choice(nodes)
        end, seconds = rng.choice([None, None, *ends]), rng.choice((1.0, LEASE_TTL, 30.0)) * rng.random()
        ways = rng.choice(([(node, end)], [(end, node)], [(node, end), (end, node)]))
        for source, target in ways:
            names = [process.name if process is not None else "the store" for process in (source, target)]
            cluster.trace.add(f"fault: the way from {names[0]} to {names[1]} is cut for {seconds:.3f}s")
            cluster.network.cuts[source, target] = cluster.loop.time() + seconds
            self.cut += 1

    def _fall_behind(self) -> None:
        """Let a replica fall behind, and take over from the store if the leader survives, or catch up."""
        cluster, seconds, leader = self._cluster, self._rng.uniform(0.05, 3.0), self._cluster.scheduler
        if leader is None or leader.process.paused or not leader.engine.present.available:
            return
        cluster.trace.add(f"fault: a replica falls behind for {seconds:.3f}s")
        cluster.store_faults.unconfirmed = cluster.scenario.is_synchronous
        self._calm_until = cluster.loop.time() + seconds + LEASE_TTL
        replica = Replica(cluster.disk, cluster.invariants, cluster.scenario.is_synchronous)
        token = cluster.disk.leases[LEADER].token
        cluster.loop.call_later(seconds, self._take_over, replica, leader, token)

    def _take_over(self, replica: Replica, leader: Scheduler, token: str) -> None:
        cluster = self._cluster
        cluster.store_faults.unconfirmed = False
        survives = leader.process.alive and not leader.process.paused and cluster.disk.leases[LEADER].token == token
        if self._over or not survives or self._rng.random() < 0.3:
            cluster.trace.add("the replica has caught up")
            return
        before = len(cluster.invariants.lost)
        replica.take_over()
        self.lost += len(cluster.invariants.lost) - before
        cluster.trace.add(f"fault: a replica takes over, {sorted(cluster.invariants.lost)[-5:]} are lost")
        cluster.store_faults.down_until = cluster.loop.time() + 0.3 * self._rng.random()

    def _fail_store(self) -> None:
        seconds = self._rng.choice((0.1, 2.0, 10.0)) * self._rng.random()
        self._cluster.trace.add(f"fault: the store is down for {seconds:.3f}s")
        self._cluster.store_faults.down_until = self._cluster.loop.time() + seconds

    def _kill_worker(self) -> None:
        workers = list(self._cluster.workers.values())
        if not workers:
            return
        worker = self._rng.choice(workers)
        self._cluster.trace.add(f"fault: {worker.process.name} is killed")
        worker.process.kill()

    def _kill_inspector(self) -> None:
        if self._cluster.inspector is not None:
            self._cluster.trace.add(f"fault: {self._cluster.inspector.name} is killed")
            self._cluster.inspector.kill()

    def _kill_sender(self) -> None:
        if self._cluster.sender is not None:
            self._cluster.trace.add(f"fault: {self._cluster.sender.name} is killed")
            self._cluster.sender.kill()

    def _stop_worker(self) -> None:
        workers = [one for one in self._cluster.workers.values() if not one.process.paused]
        if not workers:
            return
        worker = self._rng.choice(workers)
        self._cluster.trace.add(f"fault: {worker.process.name} is told to leave")
        worker.process.call_soon(worker.host.leave)
        later = self._cluster.loop.time() + self._rng.uniform(0, 3)
        worker.process.call_at(later, worker.host.interrupt)

    def _pause_worker(self) -> None:
        workers = [one for one in self._cluster.workers.values() if not one.process.paused]
        if not workers:
            return
        worker = self._rng.choice(workers)
        seconds = self._rng.choice((1.0, 8.0, 30.0)) * self._rng.random()
        self._cluster.trace.add(f"fault: {worker.process.name} stands still for {seconds:.3f}s")
        worker.process.pause()
        self._cluster.loop.call_later(seconds, worker.process.resume)
        if self._rng.random() < 0.3:
            # The whole machine stood still, and what it executes with it.
            worker.executor.children.pause()
            self._cluster.loop.call_later(seconds, worker.executor.children.resume)

    def _isolate_worker(self) -> None:
        workers = list(self._cluster.workers.values())
        if workers:
            worker = self._rng.choice(workers)
            seconds = self._rng.choice((1.0, 8.0, 30.0)) * self._rng.random()
            self._cluster.trace.add(f"fault: {worker.process.name} is cut off for {seconds:.3f}s")
            self._cluster.network.isolate(worker.process, seconds)

    def _jump_clock(self) -> None:
        seconds = self._rng.choice((1.0, 10.0, 60.0)) * self._rng.uniform(-1, 1)
        clocks = self._cluster.clocks
        place = self._rng.randrange(len(clocks)) if len(clocks) > 1 else 0
        whose = f" of scheduler {place}" if place else ""
        self._cluster.trace.add(f"fault: the wall clock{whose} jumps by {seconds:.3f}s")
        clocks[place].offset += seconds
        self._cluster.invariants.lanes.jumped = self._cluster.loop.time()
