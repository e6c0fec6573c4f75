"""The declared services: started in order, and brought in line with the files at a reload, together with the jobs."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from interlock.config.sources import Loaded
from interlock.error import InterlockError, UnknownChild, WrongStatus
from interlock.fields.field_types import did_you_mean
from interlock.model.child_info import OVER, UP, ChildInfo, Kept, ServiceAction, Status
from interlock.model.exposition import Family
from interlock.model.reload_report import Difference, Reloaded
from interlock.ports.handover import Handover, MemoryHandover
from interlock.ports.operations import TreeOperations
from interlock.supervision import Child, Group, Supervisor
from interlock.supervision.goal import unless
from interlock.wire.message import Unready

logger = logging.getLogger("interlock.services")

SERVICES = "services"
WORKERS = "workers"
NOT_JOINED = "it loads the app, or enters its lifespan"
LoadFiles = Callable[[], Loaded]  # reads the declarations; raises with every fault
DefineJobs = Callable[[Loaded, str], Awaitable[Difference]]
"""defines exactly what the files declare, on behalf of an actor; raises with every fault, and then changes nothing"""
_METRICS: tuple[tuple[str, str, str, Callable[[ChildInfo], float]], ...] = (
    ("interlock_service_up", "gauge", "Whether a service, or a worker process, is running.",
     lambda info: info.status is Status.RUNNING),
    ("interlock_service_restarts_total", "counter", "Number of automatic restarts.", lambda info: info.restarts),
    ("interlock_service_exhausted", "gauge", "Whether its budget of restarts is used up.", lambda info: info.exhausted),
)  # fmt: skip
Placed = Mapping[str, Child]  # children by their paths, each group before its members and without them


class Services(TreeOperations):
    """Operates the services and workers of a scheduler."""

    def __init__(
        self,
        tree: Supervisor,
        load: LoadFiles,
        define: DefineJobs,
        workers: Callable[[], Sequence[Child]],
        moving: set[str],
    ) -> None:
        """`moving` gets the names of services while they are removed and added again elsewhere in the tree."""
        self._tree = tree
        self._load = load
        self._define = define
        self._workers = workers
        self._hiring: asyncio.Task[None] | None = None
        self._moving = moving
        self._declared: Placed = {}
        self._policy: dict[str, str] = {}  # the policy that was read last: its name and digest
        self._placed: dict[str, Child] = {}  # the present children
        self._stopped: set[str] = set()  # moving services that were stopped by hand
        self._due: set[str] = set()  # children that wait for their turn to start
        self._begun = asyncio.Event()
        self._reading = asyncio.Lock()  # held while the files are read, so that the latest are applied last
        self._changing = asyncio.Lock()
        self._waiting = 0  # number of reloads that wait for their turn
        self._newer = asyncio.Event()  # set while a reload waits

    def read(self) -> Loaded:
        """Read the declarations for the first time; raise with every fault."""
        loaded = self._load()
        self._declared = dict(_flat(loaded.children, SERVICES))
        self._policy = _policy_of(loaded)
        return loaded

    @property
    def names(self) -> set[str]:
        """Names of all declared services."""
        return set(_services(self._declared))

    async def bring_up(self) -> None:
        """Start all in order; one that cannot be started delays the next only for its own readiness timeout."""
        async with self._changing:
            self._begun.set()
            try:
                await self._bring_in_line(self._declared)
            except Exception:
                logger.exception("not all services could be started")

    def tree(self, joined: Collection[str], faults: Mapping[str, Unready]) -> ChildInfo:
        def explained(worker: ChildInfo) -> ChildInfo:
            """Say why a worker takes no runs: it is a process, which the tree only sees start and end."""
            if (fault := faults.get(worker.name)) is not None:
                return replace(worker, reason=fault.reason, traceback=fault.traceback)
            if worker.status in UP and not any(name.startswith(f"{worker.name}-{worker.pid}-") for name in joined):
                return replace(worker, reason=NOT_JOINED)
            return worker

        top = self._tree.info()
        children = {child.name: child for child in top.children}
        if (workers := children.get(WORKERS)) is not None:
            children[WORKERS] = replace(workers, children=[explained(worker) for worker in workers.children])
        return replace(top, children=list(children.values()))

    async def act(self, name: str, action: ServiceAction, actor: str) -> ChildInfo:
        path = self._path_of(name)
        logger.info("%s: %s by %s", path, action.value, actor)
        if action is ServiceAction.STOP:
            # A child that waits for its turn stays down as well.
            self._due = {due for due in self._due if due != path and not due.startswith(f"{path}/")}
        return await self._tree.act(path, action)

    async def reload(self, actor: str) -> Reloaded:
        await self._begun.wait()
        async with self._reading:
            self._check_goes_on()
            # Before its turn, because a faulty file must not break off the present reload.
            new, jobs, policy = await self._read_again(actor)
        async with self._turn():
            self._check_goes_on()
            old, self._declared = self._declared, new
            await self._bring_in_line(new)
        # A later reload may have continued from there.
        async with self._changing:
            self._check_goes_on()
        before, after = ({child.name: (path, child) for path, child in placed.items()} for placed in (old, new))
        reloaded = Reloaded(jobs=jobs, services=Difference.between(before, after), policy=policy)
        for kind, difference in msgspec.structs.asdict(reloaded).items():
            counts = ", ".join(f"{len(names)} {what}" for what, names in msgspec.structs.asdict(difference).items())
            logger.info("reload by %s: %s: %s", actor, kind, counts)
        return reloaded

    async def _read_again(self, actor: str) -> tuple[Placed, Difference, Difference]:
        """Return the declared services, and the differences in jobs and in the policy."""
        try:
            loaded = await asyncio.to_thread(self._load)
            jobs = await self._define(loaded, actor)
            before, self._policy = self._policy, _policy_of(loaded)
            return dict(_flat(loaded.children, SERVICES)), jobs, Difference.between(before, self._policy)
        except InterlockError as error:
            what, *faults = str(error).splitlines()
            logger.error("the reload by %s changed nothing: %s", actor, what)
            for fault in faults:
                logger.error("%s", fault)
            raise

    def have_workers(self) -> None:
        if self._hiring is None:
            self._hiring = asyncio.get_running_loop().create_task(self._hire())

    async def restart_workers(self) -> None:
        """Restart one worker after the other, except those stopped by hand. Running attempts have the time of a drain,
        then they are returned."""
        for worker in self._tree.child(WORKERS).children:
            if not self._is_over and not self._tree.is_held(worker.path):
                await self._tree.act(worker.path, ServiceAction.RESTART)

    async def _hire(self) -> None:
        await self._begun.wait()
        if self._is_over or self._tree.child(WORKERS).children:
            return
        for child in self._workers():
            try:
                await self._tree.add(child, under=WORKERS)
            except InterlockError as error:
                logger.error("%s cannot be started: %s", child.name, error)

    def families(self) -> list[Family]:
        kept = [(service.name, service) for service in _leaves(self._tree.child(SERVICES))]
        kept += [(worker.path, worker) for worker in _leaves(self._tree.child(WORKERS))]
        return [
            Family(name, kind, text, [("", {"service": service}, float(value(info))) for service, info in kept])
            for name, kind, text, value in _METRICS
        ]

    def _path_of(self, name: str) -> str:
        """Return the path of a service, group or worker, given its name or path."""
        above = (self._tree.child(WORKERS), self._tree.child(SERVICES))
        found = [child for group in above for child in group.everybody() if child is not group]
        known = {child.name: child.path for child in found} | {child.path: child.path for child in found}
        if name not in known:
            raise UnknownChild(name, did_you_mean(name, [child.name for child in found]))
        return known[name]

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Apply one reload after the other. When another one comes, the present one stops waiting for children that it
        has started, and leaves the rest to the next."""
        self._waiting += 1
        self._newer.set()
        try:
            await self._changing.acquire()
        finally:
            self._waiting -= 1
            if self._waiting == 0:
                self._newer.clear()
        try:
            yield
        finally:
            self._changing.release()

    async def _bring_in_line(self, new: Placed) -> None:
        """Remove children that are not declared any more, in reverse order; add new ones in their places; then start
        new ones and restart changed ones in order, each when those before it are up or have failed."""
        before, after = _services(self._placed), _services(new)
        self._moving.update(name for name in before.keys() & after.keys() if before[name] != after[name])
        try:
            await self._remove(new)
            await self._place(new)
        finally:
            self._moving.clear()
            self._stopped.clear()
        for path, child in new.items():
            if self._is_over or self._newer.is_set():
                return
            if child != self._placed[path]:
                self._placed[path] = child
                if not await self._unless_newer(self._tree.change(path, child)):
                    return
            elif path in self._due and not await self._start(path):
                return
            self._due.discard(path)

    async def _remove(self, new: Placed) -> None:
        for path, child in reversed(list(self._placed.items())):
            # A group in place of a service of the same name, or the reverse, is another child.
            if path not in new or isinstance(child, Group) != isinstance(new[path], Group):
                if child.name in self._moving and self._tree.is_held(path):
                    self._stopped.add(child.name)
                await self._tree.remove(path)
                del self._placed[path]
                self._due.discard(path)

    async def _place(self, new: Placed) -> None:
        """Add all new children at once, so that all are visible; only groups are up then."""
        for group, names in _members(new).items():
            self._tree.arrange(group, names)
            later = [name for name in names if f"{group}/{name}" in self._placed]
            for name in names:
                path = f"{group}/{name}"
                if path in self._placed:
                    later.remove(name)
                    continue
                child = self._placed[path] = new[path]
                is_group = isinstance(child, Group)
                if not is_group and name not in self._stopped:
                    self._due.add(path)
                await self._tree.add(child, under=group, before=later[0] if later else None, start=is_group)
                if name in self._stopped:
                    with suppress(WrongStatus):
                        await self._tree.act(path, ServiceAction.STOP)
        self._placed = {path: self._placed[path] for path in new}

    async def _start(self, path: str) -> bool:
        """Start a child; return whether it was up, or had failed, before a newer reload came."""
        if self._tree.child(path).status not in (Status.CREATED, Status.STARTING):
            return True
        try:
            return await self._unless_newer(self._tree.act(path, ServiceAction.START))
        except WrongStatus:
            # In a group that is down it starts with the group.
            return True

    async def _unless_newer(self, work: Coroutine[Any, Any, object]) -> bool:
        """Wait for work, which goes on in any case; return whether it is done before a newer reload comes."""
        newer = asyncio.get_running_loop().create_task(self._newer.wait())
        try:
            task = await unless(work, newer)
        finally:
            newer.cancel()
        if not task.cancelled():
            task.result()
        return not task.cancelled()

    @property
    def _is_over(self) -> bool:
        return self._tree.status in OVER or self._tree.status is Status.STOPPING

    def _check_goes_on(self) -> None:
        if self._is_over:
            raise WrongStatus("reload: not possible, because the scheduler is stopping")


class TreeHandover(Handover):
    """The handover between the lives of a child: for services in the store, for other children in memory."""

    def __init__(self, stored: Handover) -> None:
        self._stored = stored
        self._rest = MemoryHandover()
        self.moving: set[str] = set()  # services that move to another place in the tree and keep their resume id

    async def recall(self, path: str) -> Kept | None:
        keeper, name = self._for(path)
        return await keeper.recall(name)

    def keep(self, path: str, kept: Kept) -> Awaitable[None]:
        keeper, name = self._for(path)
        return keeper.keep(name, kept)

    def forget(self, path: str) -> Awaitable[None]:
        keeper, name = self._for(path)
        if keeper is self._stored and name in self.moving:
            keeper = self._rest  # which does not know it
        return keeper.forget(name)

    def _for(self, path: str) -> tuple[Handover, str]:
        service = service_of(path)
        return (self._rest, path) if service is None else (self._stored, service)


def service_of(path: str) -> str | None:
    """Return the name of the service at this path, which is unique in the tree; None for any other child."""
    first, _, rest = path.partition("/")
    return rest.rpartition("/")[2] if first == SERVICES and rest else None


def _policy_of(loaded: Loaded) -> dict[str, str]:
    return {} if loaded.policy is None else {loaded.policy.id: loaded.policy.digest}


def _flat(children: Sequence[Child], under: str) -> Iterator[tuple[str, Child]]:
    for child in children:
        path = f"{under}/{child.name}"
        if isinstance(child, Group):
            yield path, msgspec.structs.replace(child, children=())
            yield from _flat(child.children, path)
        else:
            yield path, child


def _services(placed: Placed) -> dict[str, str]:
    """Return the path of each service by its name, without groups."""
    return {child.name: path for path, child in placed.items() if not isinstance(child, Group)}


def _members(placed: Placed) -> dict[str, list[str]]:
    """Return the names of the members of each group by its path, and of those at the top."""
    found: dict[str, list[str]] = {SERVICES: []}
    for path, child in placed.items():
        found[path.rpartition("/")[0]].append(child.name)
        if isinstance(child, Group):
            found[path] = []
    return found


def _leaves(info: ChildInfo) -> Iterator[ChildInfo]:
    return (child for child in info.everybody() if child.strategy is None)
