"""A supervisor: starts its children in order, keeps them up, stops them in reverse order, and can be a child itself."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Container, Iterator, Sequence
from difflib import get_close_matches

from interlock.model.child_info import OVER, UP, Change, ChildInfo, Exit, ServiceAction, Status
from interlock.model.error import BadValue, CannotStart, DuplicateChild, UnknownChild, WrongStatus
from interlock.ports.handover import Handover
from interlock.supervision.acting import act, check_possible
from interlock.supervision.child import ChildRunner
from interlock.supervision.group import GroupInstance
from interlock.supervision.instance import Instance, LineSink
from interlock.supervision.spec import Child, Group, Strategy
from interlock.supervision.strategies import Together
from interlock.supervision.surroundings import Surroundings
from interlock.supervision.watches import SIZE, Watch, Watches
from interlock.task_set import TaskSet

logger = logging.getLogger("interlock.supervision")


class Supervisor:
    def __init__(
        self,
        name: str = "supervisor",
        children: Sequence[Child] = (),
        *,
        strategy: Strategy | str = Strategy.ONE_FOR_ONE,
        handover: Handover | None = None,
        on_line: LineSink | None = None,
        on_change: Callable[[Change], None] | None = None,
        now: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`handover` is where resume ids and exits are kept; `on_line` gets what processes and containers print, and
        `on_change` every change, at once; `now` tells the wall time, and `chance` a number from 0 to 1 for the jitter.
        """
        group = Group(name=name, strategy=strategy, children=children)  # type: ignore[arg-type]
        around = Surroundings(handover=handover, on_line=on_line, now=now, chance=chance)
        self._set_up(group, "", around, None, on_change)

    @classmethod
    def _nested(cls, group: Group, path: str, around: Surroundings, above: "Supervisor") -> "Supervisor":
        supervisor = cls.__new__(cls)
        supervisor._set_up(group, path, around, above, None)
        return supervisor

    def _set_up(
        self,
        group: Group,
        path: str,
        around: Surroundings,
        above: "Supervisor | None",
        on_change: Callable[[Change], None] | None,
    ) -> None:
        self.name = group.name
        self.path = path
        """from the top of the tree; empty for the top itself"""
        self.strategy = group.strategy
        self._tolerant = group.tolerant
        self._stop_together = group.stop_together
        self.status = Status.CREATED
        self._around = around
        self._above = above
        self._children: list[ChildRunner] = []
        self._watches = Watches(on_change)
        self._together = Together(self._members, around.now)
        self._stopping: asyncio.Task[None] | None = None
        self._tasks = TaskSet()
        self._suspended = False
        self._is_leaving = False
        """whether it is being removed, or one above it"""
        self._since: float | None = None
        self._instance: GroupInstance | None = None
        self._ended: asyncio.Future[Exit] | None = None
        for child in group.children:
            self._place(child, None)

    # ── looking ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def info(self) -> ChildInfo:
        """The tree as it stands, from here down."""
        return ChildInfo(
            path=self.path,
            name=self.name,
            kind=Group.kind,
            status=self.status,
            since=self._since,
            strategy=self.strategy,
            children=self.children(),
        )

    def children(self) -> list[ChildInfo]:
        return [child.info() for child in self._children]

    def child(self, path: str) -> ChildInfo:
        return self._find(path)[1].info()

    def watch(self, size: int = SIZE) -> Watch:
        """Every change from now on, here and below, until the top of the tree has stopped."""
        return self._watches.add(size)

    def published(self, path: str, before: ChildInfo | None, after: ChildInfo | None) -> None:
        self._tell(Change(at=self._around.now(), path=path, before=before, after=after))

    def _tell(self, change: Change) -> None:
        self._watches.put(change)
        if self._above is not None:
            self._above._tell(change)

    # ── starting and stopping ───────────────────────────────────────────────────────────────────────────────────────

    async def start(self) -> None:
        """Start the children, each once the one before it is ready. If one cannot be started, those that were are
        stopped, and this raises `CannotStart`."""
        if self.status not in OVER and self.status is not Status.CREATED:
            raise WrongStatus(f"{self.path or self.name}: is {self.status} and cannot be started a second time")
        self.status = Status.STARTING
        self._since = self._around.now()
        self._together.begin()
        self._ended = asyncio.get_running_loop().create_future()
        if self._above is None:
            self.forget_requests()
            for child in self._all():
                child.restarts = 0
                child.publish()
        for child in self._children:
            if child.removal is None:
                child.renew()
                child.begin()
        try:
            async with self._together.starting:
                await self._start_in_order()
        except Exception as error:
            await self._halt(Status.FAILED, Exit(at=self._around.now(), error=str(error)))
            raise
        except asyncio.CancelledError:
            await self._halt(Status.STOPPED, Exit(at=self._around.now(), error="stopped while it was starting"))
            raise
        if self.halting:
            await self._has_halted()
        else:
            self.status = Status.SUSPENDED if self._suspended else Status.RUNNING

    async def _start_in_order(self) -> None:
        for child in list(self._children):
            if not self.halting and not child.stays_down:
                failure = await child.up(strict=not self._tolerant)
                if failure is not None and not self._tolerant:
                    raise CannotStart(child.path, child.reason)

    async def _has_halted(self) -> None:
        """It is over before all of it was there. Raises, unless that is because it has done what it was for."""
        await self._halt(Status.STOPPED, Exit(at=self._around.now(), code=0))
        if self.status is not Status.FINISHED:
            assert self._ended is not None
            why = self._ended.result().error or "stopped while it was starting"
            raise CannotStart(self.path or self.name, why)

    def forget_requests(self) -> None:
        """What somebody had stopped or suspended comes up like the rest."""
        self._suspended = False
        for child in self._children:
            child.held = child.to_be_suspended = False
            if child.nested is not None:
                child.nested.forget_requests()

    async def stop(self) -> None:
        """Stop the children in reverse order. May be called again, and by several; it returns when all are down."""
        if self.status is Status.CREATED:
            self.status = Status.STOPPED
            self._watches.end()
        elif self.status not in OVER:
            await self._halt(Status.STOPPED, Exit(at=self._around.now(), code=0))

    async def _halt(self, status: Status, exit: Exit) -> None:
        if self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(self._stop_all(status, exit))
        # It goes on though whoever waits for it may be cancelled.
        await asyncio.wait([self._stopping])

    async def _stop_all(self, status: Status, exit: Exit) -> None:
        self.status = Status.STOPPING
        self._together.halting.set()
        children = self._children[::-1]
        for child in children:
            if child.status is Status.PENDING:
                # Its backoff may be over before it is its turn.
                child.lower()
        if self._stop_together:
            await asyncio.gather(*(child.down() for child in children))
        for child in children:
            await child.down()
        await self._together.end()
        for child in children:
            await child.end()
        await self._tasks.end()
        if self._above is None:
            await self._close()
        self.status = status
        self._stopping = None
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(exit)
        if self._instance is not None:
            self._instance.settle(exit)

    async def _close(self) -> None:
        try:
            await self._around.close()
        except Exception:
            logger.exception("%s: not everything could be closed", self.name)
        self._watches.end()

    @property
    def halting(self) -> bool:
        return self._together.halting.is_set()

    def kill(self) -> None:
        """Wait for nobody: make a stop that is under way, or follows, end at once."""
        self._together.halting.set()
        for child in reversed(self._children):
            child.kill()

    async def wait(self) -> Exit:
        """Until it is over: because it was stopped, or because it failed."""
        if self._ended is None:
            raise WrongStatus(f"{self.path or self.name}: is {self.status}, there is nothing to wait for")
        await asyncio.wait([self._ended])
        return self._ended.result()

    async def __aenter__(self) -> "Supervisor":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def instance(self) -> Instance:
        """One life of it, as a child."""
        self._instance = GroupInstance(self)
        return self._instance

    # ── what its children tell it ───────────────────────────────────────────────────────────────────────────────────

    def collapse(self, child: ChildRunner, exit: Exit) -> None:
        if not self.halting:
            well = exit.ok and not child.exhausted
            error = "" if well else f"{child.path}: {child.reason or exit}"
            over = Exit(at=self._around.now(), code=0 if well else None, error=error)
            self._together.halting.set()
            status = Status.FINISHED if well else Status.FAILED
            self._stopping = asyncio.get_running_loop().create_task(self._stop_all(status, over))

    def regroup(self, child: ChildRunner, at: float) -> None:
        self._together.want(child, at)

    def _members(self, ended: Container[ChildRunner]) -> list[ChildRunner]:
        """Who is restarted when those have ended."""
        if self.strategy is Strategy.ONE_FOR_ALL:
            return list(self._children)
        places = [place for place, child in enumerate(self._children) if child in ended]
        if self.strategy is Strategy.REST_FOR_ONE:
            return self._children[min(places, default=len(self._children)) :]
        return [self._children[place] for place in places]

    # ── adding and removing ─────────────────────────────────────────────────────────────────────────────────────────

    def _place(self, spec: Child, before: str | None) -> ChildRunner:
        if not isinstance(spec, Child):
            raise BadValue("child", spec, "a child: Process, Function, Container, Group")
        names = [child.spec.name for child in self._children]
        if spec.name in names:
            raise DuplicateChild(spec.name, self.path or self.name)
        if before is not None and before not in names:
            raise UnknownChild(before)
        path = f"{self.path}/{spec.name}" if self.path else spec.name
        nested = Supervisor._nested(spec, path, self._around, self) if isinstance(spec, Group) else None
        child = ChildRunner(spec, self, path, self._around, nested)
        self._children.insert(len(names) if before is None else names.index(before), child)
        return child

    async def add(self, spec: Child, *, under: str = "", before: str | None = None, start: bool = True) -> ChildInfo:
        """Have one more child, last or before the one of that name; `under` is the path of the supervisor it goes to.
        It is started if that runs, unless `start` says that it is left for later; this returns when it is up, or has
        failed for the first time, which its policy then deals with."""
        if under:
            return await self._supervisor(under).add(spec, before=before, start=start)
        self._check_stays()
        child = self._place(spec, before)
        for one in _with_all_below(child):
            self.published(one.path, None, one.known)
        if self.status in (Status.STARTING, *UP):
            child.to_be_suspended = self._suspended
            child.begin()
            if start:
                await child.up()
        return child.info()

    async def remove(self, path: str) -> None:
        """Stop a child and forget it, its resume id too. In its backoff, it never starts again."""
        owner, child = self._find(path)
        if child.removal is None:
            owner._check_stays()
            child.removal = owner._tasks.begin(owner._remove(child))
            for one in _with_all_below(child):
                if one.nested is not None:
                    one.nested._is_leaving = True
        await asyncio.wait([child.removal])

    async def _remove(self, child: ChildRunner) -> None:
        await child.down()
        await child.end()
        self._children.remove(child)
        gone = list(_with_all_below(child))
        # All at once, before another one of the same name can be added.
        forgotten = [self._around.handover.forget(one.path) for one in gone]
        for one in reversed(gone):
            self.published(one.path, one.known, None)
        for forgetting in forgotten:
            await forgetting

    def _check_stays(self) -> None:
        if self._is_leaving:
            raise WrongStatus(f"{self.path}: is being removed")

    async def change(self, path: str, spec: Child) -> None:
        """Describe a child of this name anew. It is started again as it is described now, under its resume id, unless
        somebody has stopped it. A supervisor takes on what is said of itself and leaves its children alone."""
        owner, child = self._find(path)
        if not isinstance(spec, Child) or spec.name != child.spec.name:
            raise BadValue("child", spec, f"a child of the name {child.spec.name}")
        if isinstance(spec, Group) != (child.nested is not None):
            raise BadValue("child", spec, "of the kind that it was, a supervisor or something else")
        owner._check_stays()
        await owner._tasks.run(owner._change(child, spec))

    async def _change(self, child: ChildRunner, spec: Child) -> None:
        if child.nested is not None and isinstance(spec, Group):
            child.nested.strategy, child.nested._tolerant = spec.strategy, spec.tolerant
            child.nested._stop_together = spec.stop_together
        # Before it is stopped: whoever starts it meanwhile starts it as it is described now.
        child.describe(spec)
        if child.nested is None:
            await child.down()
        if child.removal is not None:
            return
        if not child.held and child.status is not Status.PENDING:
            await child.up()

    def is_held(self, path: str) -> bool:
        """Whether somebody has stopped it, so that it stays down."""
        return self._find(path)[1].held

    def arrange(self, under: str, names: Sequence[str]) -> None:
        """Put the children of a supervisor into this order, for starts and stops to come; others come last."""
        owner = self._supervisor(under) if under else self
        places = {name: place for place, name in enumerate(names)}
        owner._children.sort(key=lambda child: places.get(child.spec.name, len(places)))

    # ── one child ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def act(self, path: str, action: ServiceAction) -> ChildInfo:
        """Start, stop, restart, suspend or resume one child. What is asked for last counts."""
        owner, child = self._find(path)
        owner._check_stays()
        if owner.status not in UP:
            raise WrongStatus(f"{path}: cannot {action.value}, its supervisor is {owner.status}")
        check_possible(child, action)
        await owner._tasks.run(act(child, action, owner._suspended))
        return child.info()

    async def suspend(self) -> None:
        """Suspend the children that can be, in reverse order; all are tried, and errors come together."""
        self._suspended = True
        if self.status is Status.RUNNING:
            self.status = Status.SUSPENDED
        await self._each(self._children[::-1], ChildRunner.suspend, "suspended")

    async def resume(self) -> None:
        """The same the other way round, in order."""
        self._suspended = False
        if self.status is Status.SUSPENDED:
            self.status = Status.RUNNING
        await self._each(self._children[:], ChildRunner.resume, "resumed")

    async def _each(
        self, children: Sequence[ChildRunner], shift: Callable[[ChildRunner], Awaitable[object]], word: str
    ) -> None:
        errors = []
        for child in children:
            try:
                await shift(child)
            except Exception as error:  # noqa: BLE001 - whatever it is, the others have their turn too
                errors.append(error)
        if errors:
            raise ExceptionGroup(f"{self.path or self.name}: not everything could be {word}", errors)

    # ── finding ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _find(self, path: str) -> "tuple[Supervisor, ChildRunner]":
        found = self._look_up(path)
        if found is None:
            close = get_close_matches(path, [one.path for one in self._all()], 1)
            raise UnknownChild(path, f"; did you mean {close[0]!r}?" if close else "")
        return found

    def _look_up(self, path: str) -> "tuple[Supervisor, ChildRunner] | None":
        first, slash, rest = path.partition("/")
        for child in self._children:
            if child.spec.name == first:
                if not slash:
                    return self, child
                return child.nested._look_up(rest) if child.nested is not None else None
        return None

    def _supervisor(self, path: str) -> "Supervisor":
        nested = self._find(path)[1].nested
        if nested is None:
            raise WrongStatus(f"{path}: is not a supervisor")
        return nested

    def _all(self) -> Iterator[ChildRunner]:
        for child in self._children:
            yield from _with_all_below(child)


def _with_all_below(child: ChildRunner) -> Iterator[ChildRunner]:
    yield child
    if child.nested is not None:
        yield from child.nested._all()
