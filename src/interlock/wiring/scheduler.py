"""A scheduler put together from its parts, as a supervision tree."""

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from random import Random, SystemRandom

import msgspec

from interlock.buses.open import open_bus
from interlock.buses.socket import ProcessWatch
from interlock.config import Settings
from interlock.config.sources import FromApp, Loaded, load, of_app
from interlock.core.state import CoreLimits
from interlock.engine.catalog import Catalog
from interlock.engine.effects import no_service
from interlock.engine.engine import Engine, EngineSettings
from interlock.engine.housekeeping import Housekeeping, Keep
from interlock.engine.inbox import Inbox
from interlock.engine.metrics import Metrics
from interlock.engine.service_book import ServiceBook
from interlock.engine.sweeper import Sweeper
from interlock.error import CannotImport, InterlockError
from interlock.fields.field import copy_fields
from interlock.model.child_info import Change, ChildInfo
from interlock.model.cluster import NodeFacts
from interlock.model.delivery import Delivery
from interlock.model.reload_report import Difference, Reloaded
from interlock.model.state import State
from interlock.ports.clock import StoreClock, SystemClock
from interlock.stores.open import AnyStore, open_store
from interlock.supervision import Backoff, Budget, Child, ChildContext, Function, Group, Process, Restart, Supervisor
from interlock.task_set import TaskSet
from interlock.wire.command import NoteTokens
from interlock.wire.message import Drain
from interlock.wiring.catalog import catalog_of, entries_of
from interlock.wiring.child import command_of
from interlock.wiring.file_watch import DEV_EVERY, FileWatch
from interlock.wiring.gateway_sockets import Front
from interlock.wiring.helpers import SENDING, Helpers
from interlock.wiring.node_links import GATEWAY_TOKEN, WORKER_TOKEN, Reach, bus_for_nodes
from interlock.wiring.policy import remote_policy
from interlock.wiring.service_tree import SERVICES, WORKERS, LoadFiles, Services, TreeHandover, service_of
from interlock.wiring.worker import WorkerOptions, run_worker
from interlock.worker.app_loader import source_folders
from interlock.worker.definition import Definition

logger = logging.getLogger("interlock.scheduler")

LEAD = 0.1  # seconds before its time at which an occurrence may go to a worker
STARTED_WRONGLY = 2  # exit code of a worker that cannot load the app
AFTER_DRAIN = 17.0  # seconds after the drain in which a worker stops its runs, reports them, leaves its lifespans, ends
DEV_DRAIN = 2.0  # seconds for runs to finish before a restart during development
SOURCES = "dev"  # the actor of a reload because sources have changed
HEARING = 0.3  # seconds to notice the end of killed workers; less than a function has to end at a kill
WORKER_BACKOFF = Backoff(initial=0.1, max=10.0, reset_after=10.0)
WORKER_BUDGET = Budget(max_restarts=0)  # no limit: what its lifespan needs may come back after hours


def codes_of(definitions: Mapping[str, Definition]) -> dict[str, str]:
    return {job_id: definition.job.code for job_id, definition in definitions.items()}


def without_tokens(settings: Settings) -> dict[str, str | None]:
    """Return the variables that remove tokens from the environment of children."""
    given = {token.env: None for token in settings.tokens if token.env is not None}
    return {**given, WORKER_TOKEN: None, GATEWAY_TOKEN: None}


def read_files(settings: Settings, app: FromApp) -> Loaded:
    return load(settings.files, app, settings.strict, settings.every_lane())


class Scheduler:
    """The engine with its store and socket, and the tree around it."""

    def __init__(
        self,
        definitions: Mapping[str, Definition],
        target: str | None,
        settings: Settings,
        store: AnyStore | None = None,
        load: LoadFiles = Loaded,
        load_again: LoadFiles | None = None,
        worker_budget: Budget = WORKER_BUDGET,
        on_reload: Callable[[Reloaded], None] = lambda _: None,
        node: NodeFacts | None = None,
    ) -> None:
        """Without a `target`, the name of the app, there are workers only if some jobs need no app. `load` reads the
        declared services and jobs. `load_again` does so at every reload, and may import the app again. `on_reload` gets
        the result of each automatic reload."""
        self.settings = settings
        self.instance = f"{SystemRandom().getrandbits(48):012x}"
        self._processes = ProcessWatch()
        self.bus = open_bus(settings.socket_path(), self._processes)
        self.elsewhere = bus_for_nodes(settings)
        self.store = store if store is not None else open_store(settings.database)
        self._definitions = definitions  # jobs of the app
        self.handed_over = asyncio.Event()
        """set when another scheduler is to lead"""
        inbox = Inbox()
        self.book = ServiceBook(inbox.post)
        handover = TreeHandover(self.book)
        self.tree = Supervisor("interlock", handover=handover, on_line=self._line, on_change=self._changed)
        self.services = Services(self.tree, self._load, self._define, self._workers, handover.moving)
        self._helpers = Helpers(self.tree, settings, target, self.store)
        self._policy = policy = remote_policy(settings, inbox)
        self.engine = Engine(
            store=self.store,
            leases=self.store,
            inbox=inbox,
            book=self.book,
            metrics=Metrics() if policy is None else Metrics(lambda: policy.circuit.level),
            operations=self.services,
            watch_worker=self._processes.watch_worker,
            need_sender=self._helpers.have_sender,
            check_policy=no_service if policy is None else policy.check,
            clock=SystemClock() if node is None else StoreClock(SystemClock()),
            rng=Random(SystemRandom().getrandbits(64)),
            catalog=Catalog(entries_of(definitions, settings.secret_names), settings.every_lane()),
            settings=EngineSettings(
                limits=CoreLimits(
                    heartbeat_interval=settings.heartbeat,
                    missed_heartbeats=settings.missed_heartbeats,
                    log_lines=settings.log_lines,
                    log_bytes=settings.log_bytes,
                    prerun=settings.prerun,
                    lead=min(LEAD, settings.prerun, settings.heartbeat),
                    session_patterns=settings.sessions,
                    approval_timeout=settings.approval_timeout,
                    remote_policy=settings.policy_service is not None,
                    policy_fails_open=settings.policy_check_fail_mode == "open",
                    secret_names=tuple(settings.secret_names),
                ),
                holder=f"process {os.getpid()}" if node is None else node.name,
                instance=self.instance,
                node=node,
            ),
            hand_over=self.handed_over.set,
        )
        keep = copy_fields(Keep, settings)
        owner = self.engine.owner
        self._housekeeping = Housekeeping(self.store, lambda: owner.lease, keep, self.engine.metrics, SystemClock())
        self._sweeper = Sweeper(self.engine.present, self.store, settings.sweep_interval)
        self.front = Front(settings, self.store)
        self._read = load
        self._read_again = load_again or load
        self._tasks = TaskSet()
        self._renewing = asyncio.Lock()  # held while the workers restart
        self._on_reload = on_reload
        self._watch: FileWatch | None = None
        self._target = target
        self._worker_budget = worker_budget
        self._own_workers: set[str] = set()  # `name-pid` of every worker started here
        self._bringing_up: asyncio.Task[None] | None = None
        self.keeps_workers = settings.keep_workers and not self.store.is_private

    def _children(self) -> list[Child]:
        """Return the children in starting order. They stop in reverse: first the workers finish, and HTTP ends last."""
        return [
            *self.front.children(),
            Group(name=SENDING, tolerant=True),
            Function(name="engine", run=self._run_engine, restart=Restart.NEVER, significant=True, stop_timeout=30.0),
            Group(name=SERVICES, tolerant=True),
            Group(name=WORKERS, tolerant=True, stop_together=True, children=self._workers() if self._has_work else ()),
            *([] if self._policy is None else [Function(name="policy", run=self._policy.watch)]),
            Function(name="housekeeping", run=self._housekeeping.run, backoff=Backoff(initial=1.0, max=60.0)),
            Function(name="sweeps", run=self._sweeper.run, backoff=Backoff(initial=1.0, max=60.0)),
            *([] if self._watch is None else [Function(name="watch", run=self._watch.run)]),
        ]

    @property
    def _has_work(self) -> bool:
        """Whether workers have anything to do."""
        known = (*self.engine.present.catalog.jobs, *self.engine.state.jobs.values())
        return self._target is not None or any(job.work is not None or job.workflow is not None for job in known)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to run: no app, no job and no service."""
        known = (*self.engine.present.catalog.jobs, *self.engine.state.jobs, *self.tree.child(SERVICES).children)
        return self._target is None and not known

    @property
    def has_schedules(self) -> bool:
        """Whether any declared job has a schedule."""
        return any(job.schedule is not None for job in self.engine.present.catalog.jobs)

    def _workers(self) -> list[Child]:
        return [
            Process(
                name=f"w{number}",
                command=self._worker_command(number),
                env=without_tokens(self.settings),
                backoff=WORKER_BACKOFF,
                budget=self._worker_budget,
                stop_timeout=self.settings.drain + AFTER_DRAIN,
                # The next scheduler adopts its runs if this one is killed.
                outlives=True,
                capture=False,
            )
            for number in range(1, self.settings.workers + 1)
        ]

    def _surrounded(self, child: Child) -> Child:
        """Add the scheduler's own variables to a declared service."""
        if isinstance(child, Group):
            children = [self._surrounded(member) for member in child.children]
            return msgspec.structs.replace(child, children=children, tolerant=True)
        # It must find this scheduler, whatever the environment of `interlock up` names.
        given: dict[str, str | None] = {**without_tokens(self.settings), "INTERLOCK_URL": None, "INTERLOCK_TOKEN": None}
        given["INTERLOCK_SOCKET"] = str(self.settings.socket_path())
        return msgspec.structs.replace(child, env={**given, **child.env}) if isinstance(child, Process) else child

    def _worker_command(self, number: int) -> list[str]:
        options = copy_fields(
            WorkerOptions,
            self.settings,
            app=self._target,
            reach=Reach(socket=str(self.settings.socket_path())),
            waits=False,
            name=f"w{number}",
            path=[part or os.getcwd() for part in sys.path],
            instance=self.instance,
            drain=min(self.settings.drain, DEV_DRAIN) if self.settings.dev else self.settings.drain,
            echo=self.settings.echo or self.settings.dev,
        )
        return command_of(run_worker, options)

    def _load(self) -> Loaded:
        loaded = self._read()
        self._read = self._read_again
        for warning in loaded.warnings:
            logger.warning("%s", warning)
        return msgspec.structs.replace(loaded, children=[self._surrounded(child) for child in loaded.children])

    def _with_files(self, loaded: Loaded) -> Catalog:
        definitions = self._definitions if loaded.definitions is None else loaded.definitions
        return catalog_of(definitions, loaded, self.settings, self.engine.present.catalog.policy)

    async def _define(self, loaded: Loaded, actor: str) -> Difference:
        difference = await self.engine.declarations.declare(self._with_files(loaded), actor)
        if loaded.definitions is not None:
            before, self._definitions = self._definitions, loaded.definitions
            # A file that has changed restarts the workers in any case during development.
            if actor != SOURCES and codes_of(before) != codes_of(loaded.definitions):
                self._tasks.begin(self._renew_workers())
        if self._has_work:
            self.services.have_workers()
        self._helpers.have_inspector(self.engine.present.catalog.policy)
        return difference

    async def _reload(self) -> None:
        """Reload, because the files have changed."""
        self._on_reload(await self.services.reload("watch"))

    async def _reload_sources(self) -> None:
        """Reload and restart the workers, because files or sources have changed."""
        self._on_reload(await self.services.reload(SOURCES))
        await self._renew_workers()

    async def _renew_workers(self) -> None:
        """Restart the workers one after the other, and the inspector, with the present code of the app."""
        async with self._renewing:
            try:
                await self.services.restart_workers()
                await self._helpers.restart_inspector()
            except InterlockError as error:
                logger.error("the workers could not be restarted: %s", error)

    async def _run_engine(self, context: ChildContext) -> None:
        """Run the engine, which ends by itself only with an error."""
        running = asyncio.get_running_loop().create_task(self.engine.run())
        try:
            await asyncio.wait([running])
        finally:
            if not running.done():
                if not self.keeps_workers:
                    await self._wait_for_workers()
                    await self._wait_for_hooks()
                # First the last output of services is stored, then everything else that has arrived.
                await self.book.flush()
            self.engine.stop()
            await running
            await self.engine.requests.finish()

    async def _wait_for_workers(self) -> None:
        """Wait until the workers are gone and their runs returned. At a kill they end only now."""
        end = asyncio.get_running_loop().time() + HEARING
        while asyncio.get_running_loop().time() < end:
            if not any(map(self._is_own, self.engine.state.workers)):
                break
            await asyncio.sleep(0.005)

    def _is_own(self, worker_id: str) -> bool:
        return worker_id.rpartition("-")[0] in self._own_workers

    async def _wait_for_hooks(self) -> None:
        """Let runs end that have done their work and wait for their hook."""
        end = asyncio.get_running_loop().time() + self.settings.drain
        while any(run.state is State.TERMINATING and not run.is_held_back for run in self.engine.state.runs.values()):
            if asyncio.get_running_loop().time() > end:
                break
            await asyncio.sleep(0.01)

    def _line(self, path: str, stream: str, text: str, at: float) -> None:
        service = service_of(path)
        if service is not None:
            self.book.line(service, stream, text, at)

    def _changed(self, change: Change) -> None:
        service = service_of(change.path)
        if service is not None:
            self.book.change(change, service)
        elif change.path.startswith(f"{WORKERS}/") and change.after is not None and change.after.pid is not None:
            self._own_workers.add(f"{change.after.name}-{change.after.pid}")

    async def start(self) -> None:
        """Open everything, or leave nothing open."""
        try:
            # Before the files are read, so that no change is missed.
            if self.settings.dev:
                sources = [] if self._target is None else source_folders(self._target)
                self._watch = FileWatch(self.settings.files, self._reload_sources, DEV_EVERY, sources)
            elif self.settings.watch:
                self._watch = FileWatch(self.settings.files, self._reload)
            self.engine.present.catalog = self._with_files(self.services.read())
            await self.store.open()
            # Before the sockets open, so that the first request can be answered.
            await self.engine.start()
            await self.book.load(self.store)
            # Services that are not declared any more are forgotten, as by a reload.
            for service in self.book.services - self.services.names:
                self.book.forget(service)
            self.engine.inbox.post("", NoteTokens({token.name: token.identity for token in self.settings.tokens}))
            await self.front.open()
            await self.bus.listen(self.engine.links)
            if self.elsewhere is not None:
                await self.elsewhere.listen(self.engine.links)
            for child in self._children():
                await self.tree.add(child)
            await self.tree.start()
            if await self.store.due_times(Delivery):
                self._helpers.have_sender()
            self._helpers.have_inspector(self.engine.present.catalog.policy)
        except BaseException:
            await self.engine.owner.release()
            await self._close()
            raise
        self._bringing_up = asyncio.get_running_loop().create_task(self.services.bring_up())

    async def ready(self, given_up: asyncio.Event) -> None:
        """Wait until a worker has joined, if there are any; raise if they cannot load the app."""
        while self.workers and not self.engine.present.peers.workers and not given_up.is_set():
            if any(
                worker.last_exit is not None and worker.last_exit.code == STARTED_WRONGLY for worker in self.workers
            ):
                raise CannotImport(str(self._target), "a worker could not load it; its message says why")
            await asyncio.sleep(0.01)

    @property
    def workers(self) -> list[ChildInfo]:
        return self.tree.child(WORKERS).children

    async def stop(self) -> None:
        """Refuse new work, let workers finish or return their runs, stop the rest, store what is left, close. Workers
        that are kept finish their runs meanwhile or later, and report to the next scheduler."""
        self.engine.drain()
        if self.keeps_workers:
            self.tree.around.spares = True
            for name in filter(self._is_own, self.engine.present.peers.workers):
                self.engine.present.peers.send_to_worker(name, [Drain()])
        self._tasks.cancel()
        self._helpers.cancel()
        try:
            await self.tree.stop()
            if self._bringing_up is not None:
                await self._bringing_up
        finally:
            await self._close()

    async def _close(self) -> None:
        self.front.close()
        if self._policy is not None:
            await self._policy.close()
        await self.bus.close()
        self._processes.close()
        if self.elsewhere is not None:
            await self.elsewhere.close()
        await self.store.close()

    async def wait(self) -> None:
        """Wait until everything is stopped; raise if the engine has failed."""
        exit = await self.tree.wait()
        if not exit.ok:
            raise InterlockError(f"the scheduler has failed: {exit}")


def declared_scheduler(
    settings: Settings,
    app: FromApp,
    on_reload: Callable[[Reloaded], None] = lambda _: None,
    node: NodeFacts | None = None,
) -> Scheduler:
    """Return the scheduler of an app and of the files that the settings name."""

    def read_again() -> Loaded:
        found = of_app(settings.app, again=True)
        return msgspec.structs.replace(read_files(settings, found), definitions=found.definitions)

    read = partial(read_files, settings, app)
    return Scheduler(
        app.definitions, settings.app, settings, load=read, load_again=read_again, on_reload=on_reload, node=node
    )
