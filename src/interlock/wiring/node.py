"""A node of a cluster: everything that `interlock up` keeps running on a machine if the database is on a server.

    interlock
    ├─ gateway      process    serves HTTP; reads the store, and asks the scheduler that leads
    ├─ scheduler    process    stands by for the lease; then it leads, with the tree of `wiring/scheduler.py` below it
    ├─ workers      supervisor worker processes; they work for the scheduler that leads
    └─ announcer    function   tells the leader that the node is there, and which of its workers have ended

Each part finds the leader by itself: at one of the `nodes`, or without any at the socket of this machine. A scheduler
that loses its lease ends, and its node starts it again as a standby: nothing half dead survives. A stop ends the
workers first, then the scheduler, so that another node leads at once, and the gateway last.
"""

import asyncio
import gc
import hashlib
import logging
import math
import os
import sys
import time
from contextlib import suppress
from importlib.metadata import version
from random import SystemRandom
from typing import Any

import msgspec

from interlock.api.patience import ask
from interlock.client.connection import Connection
from interlock.config import Settings
from interlock.config.sources import of_app
from interlock.engine.cluster import ANNOUNCED_EVERY
from interlock.engine.engine import EngineSettings
from interlock.engine.ownership import GIVES_WAY
from interlock.error import BadUse, InterlockError
from interlock.error_lines import say
from interlock.fields.field import copy_fields
from interlock.model.access import Role
from interlock.model.child_info import Change
from interlock.model.cluster import NodeFacts
from interlock.stores.open import look_at_server, open_reader
from interlock.supervision import Backoff, Budget, Child, ChildContext, Function, Group, Process, Supervisor
from interlock.wire.cluster_request import Announce
from interlock.wiring.catalog import catalog_of
from interlock.wiring.child import command_of, hidden_options, stop_signals
from interlock.wiring.gateway_sockets import Front
from interlock.wiring.node_links import reach_of
from interlock.wiring.scheduler import AFTER_DRAIN, WORKER_BACKOFF, declared_scheduler, read_files, without_tokens
from interlock.wiring.service_tree import WORKERS
from interlock.wiring.worker import WorkerOptions, run_worker

logger = logging.getLogger("interlock.cluster")

SCHEDULER = Backoff(initial=0.1, max=5.0, reset_after=10.0)
UNHEARD = 15.0  # seconds without a leader after which a node looks for the reason: more than a take-over lasts
STOPPING = 30.0  # seconds that a scheduler has to stop its services and to store what has arrived


class LeadOptions(msgspec.Struct, frozen=True, kw_only=True):
    settings: Settings
    node: NodeFacts
    log_level: str
    log_format: str


class Node:
    def __init__(self, settings: Settings, target: str | None) -> None:
        """Raise if the declarations have a fault, or a part could not find its scheduler with these settings."""
        if settings.nodes and settings.listen_workers is None and "scheduler" in settings.roles:
            raise BadUse("listen_workers", "missing, but the other nodes must reach a scheduler that leads; see nodes")
        self.settings = settings
        self._target = target
        self._descriptors: list[int] = []
        self.facts = facts_of(settings)
        self.tree = Supervisor("interlock", on_change=self._changed)
        reach = reach_of(settings, Role.GATEWAY)
        serves = "gateway" in settings.roles
        self.front = Front(settings, open_reader(settings.database), reach, LEASE) if serves else None
        self._worker_reach = reach_of(settings, Role.WORKER) if "worker" in settings.roles else None
        self._connection = Connection(reach.bus(), patience=0.0, silence=LEASE)
        self._ended: list[str] = []  # names and pids of workers whose end the leader has not heard of

    def _children(self) -> list[Child]:
        """Return the parts in starting order; they stop in reverse."""
        found = [] if self.front is None else self.front.children()
        if "scheduler" in self.settings.roles:
            found.append(self._scheduler())
        if self._worker_reach is not None:
            workers = [self._worker(number) for number in range(1, self.settings.workers + 1)]
            found.append(Group(name=WORKERS, tolerant=True, stop_together=True, children=workers))
        found.append(Function(name="announcer", run=self._announce))
        return found

    def _changed(self, change: Change) -> None:
        """Note the end of a worker process: over TLS, the leader would notice only its silence."""
        before, after = change.before, change.after
        pid = None if before is None or not change.path.startswith(f"{WORKERS}/") else before.pid
        if pid is not None and (after is None or after.pid != pid):
            self._ended.append(f"{change.path.rpartition('/')[2]}-{pid}")

    async def _announce(self, context: ChildContext) -> None:
        warn_at = time.monotonic() + UNHEARD
        while True:
            if await self._tell():
                warn_at = time.monotonic() + UNHEARD
            elif time.monotonic() >= warn_at:
                warn_at = math.inf
                await self._warn()
            await asyncio.sleep(ANNOUNCED_EVERY)

    async def _tell(self) -> bool:
        """Return whether a leader has heard of this node."""
        ended = list(self._ended)
        try:
            await ask(self._connection, Announce(0, self.facts, time.time(), ended))
        except InterlockError:
            return False
        del self._ended[: len(ended)]
        return True

    async def _warn(self) -> None:
        """Say so if somebody leads whom this node cannot find: its addresses are wrong, or that is another cluster."""
        with suppress(InterlockError):
            found = await look_at_server(self.settings.database, LEASE)
            if found.leader is not None:
                logger.warning(
                    "%s leads on schema %s, but this node does not find it: %s; nodes must have the address at which "
                    "it listens, and another cluster needs a schema of its own",
                    found.leader, found.schema, self._connection.fault,
                )  # fmt: skip

    def _scheduler(self) -> Child:
        # The other parts are beside it, not below it.
        own = msgspec.structs.replace(self.settings, http="off", workers=0)
        options = self._hide(copy_fields(LeadOptions, self.settings, settings=own, node=self.facts))
        return Process(
            name="scheduler",
            command=command_of(lead, str(options)),
            pass_fds=(options,),
            backoff=SCHEDULER,
            budget=Budget(max_restarts=0),
            stop_timeout=STOPPING + self.settings.drain,
            capture=False,
        )

    def _worker(self, number: int) -> Child:
        name, path = f"{self.facts.name}-w{number}", [part or os.getcwd() for part in sys.path]
        own = {"app": self._target, "reach": self._worker_reach, "waits": True, "name": name, "path": path}
        options = self._hide(copy_fields(WorkerOptions, self.settings, instance="", **own))
        return Process(
            name=name,
            command=command_of(run_worker, str(options)),
            pass_fds=(options,),
            env=without_tokens(self.settings),
            backoff=WORKER_BACKOFF,
            budget=Budget(max_restarts=0),
            stop_timeout=self.settings.drain + AFTER_DRAIN,
            capture=False,
        )

    def _hide(self, options: msgspec.Struct) -> int:
        descriptor = hidden_options(options)
        self._descriptors.append(descriptor)
        return descriptor

    async def start(self) -> None:
        """Open everything, or leave nothing open."""
        try:
            if self.front is not None:
                await self.front.open()
            for child in self._children():
                await self.tree.add(child)
            await self.tree.start()
        except BaseException:
            self._close()
            raise

    async def stop(self) -> None:
        try:
            await self.tree.stop()
            if self._ended:
                await self._tell()  # workers that had no time to give their runs back
        finally:
            await self._connection.close()
            self._close()

    def _close(self) -> None:
        if self.front is not None:
            self.front.close()
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()


LEASE = EngineSettings().lease_ttl


def facts_of(settings: Settings) -> NodeFacts:
    """Return what a node says of itself; raise if its files or its app have a fault."""
    app = of_app(settings.app)
    loaded = read_files(settings, app)
    catalog = catalog_of(app.definitions, loaded, settings, None)
    return NodeFacts(
        name=settings.name_of_node(),
        instance=f"{SystemRandom().getrandbits(48):012x}",
        roles=settings.roles,
        version=version("interlock"),
        since=time.time(),
        digests={
            "jobs": _digest(sorted(job.version for job in catalog.jobs)),
            "lanes": _digest(sorted(catalog.lanes.items())),
            "pools": _digest(sorted(catalog.pools.items())),
            "tenants": _digest(sorted(catalog.tenants.items())),
            "policy": "" if catalog.policy is None else catalog.policy.digest,
            "tokens": _digest(sorted((token.name, token.identity) for token in settings.tokens)),
        },
    )


def _digest(value: object) -> str:
    return hashlib.blake2b(msgspec.json.encode(value), digest_size=8).hexdigest()


async def lead(options: LeadOptions) -> None:
    """Stand by for the lease, lead until TERM, and raise if another scheduler leads."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)  # a pass makes and drops thousands of values, none in cycles
    settings = options.settings
    scheduler = declared_scheduler(settings, of_app(settings.app), node=options.node)
    asked = stop_signals(scheduler.tree.kill)
    starting = asyncio.ensure_future(scheduler.start())
    await asyncio.wait([starting, asked], return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.wait([starting])
        return
    starting.result()
    say(f"interlock: node {options.node.name} leads, epoch {scheduler.engine.owner.held.epoch}")
    ended = asyncio.ensure_future(scheduler.wait())
    handed_over = asyncio.ensure_future(scheduler.handed_over.wait())
    ends: list[asyncio.Future[Any]] = [ended, asked, handed_over]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    if ended.done():
        # Another scheduler leads: what this one supervises must not outlast it.
        scheduler.tree.kill()
    await scheduler.stop()
    await asyncio.wait([ended])
    if ended.exception() is not None and scheduler.engine.owner.lease is None:
        say(f"interlock: node {options.node.name} leads no more")
        return
    ended.result()
    if handed_over.done() and not asked.done():
        say(f"interlock: node {options.node.name} has handed the lead over")
        await asyncio.wait([asked], timeout=GIVES_WAY)
