"""A supervisor: starts its children in order, keeps them up, stops them in reverse order, and can be a child itself."""

import asyncio
import random
import time
from collections.abc import Callable, Container, Sequence

from interlock.error import BadValue, CannotStart, DuplicateChild, UnknownChild, WrongStatus
from interlock.fields.field_types import did_you_mean
from interlock.model.child_info import OVER, UP, Change, ChildInfo, Exit, ServiceAction, Status
from interlock.ports.handover import Handover, MemoryHandover
from interlock.supervision.child import ChildRunner
from interlock.supervision.goal import SIZE, Watch, insist
from interlock.supervision.instance import Instance, LineSink, Surroundings
from interlock.supervision.spec import Child, Group, Strategy
from interlock.supervision.strategies import Together
from interlock.task_set import TaskSet


class Supervisor(Instance):
    """Below another supervisor it is itself a child, and each of its starts is one life."""

    can_suspend = True

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
        """`handover` keeps resume ids and exits; `on_line` gets the output of processes and containers, and `on_change`
        every change, at once; `now` returns the wall time, `chance` a number from 0 to 1 for the jitter."""
        group = Group(name=name, strategy=strategy, children=children)  # type: ignore[arg-type] # checked there
        handover = handover if handover is not None else MemoryHandover()
        around = Surroundings(handover=handover, on_line=on_line, on_change=on_change, now=now, chance=chance)
        self._set_up(group, "", None, around)

    def nested(self, group: Group, path: str) -> "Supervisor":
        supervisor = Supervisor.__new__(Supervisor)
        supervisor._set_up(group, path, self, self.around)
        return supervisor

    def _set_up(self, group: Group, path: str, above: "Supervisor | None", around: Surroundings) -> None:
        self.name = group.name
        self.path = path  # from the top of the tree; empty for the top itself
        self.spec = group
        self.status = Status.CREATED
        self.around = around
        self._above = above
        self._watches: list[Watch] = []
        self._children: list[ChildRunner] = []
        self.together = Together(self._members, around.now)
        self._stopping: asyncio.Task[None] | None = None
        self._tasks = TaskSet()
        self._suspended = False
        self._is_leaving = False  # whether it is being removed, or one above it
        self._since: float | None = None
        for child in group.children:
            self._place(child, None)

    def info(self) -> ChildInfo:
        """Return the present tree, from here down."""
        return ChildInfo(
            path=self.path,
            name=self.name,
            kind=Group.kind,
            status=self.status,
            since=self._since,
            strategy=self.spec.strategy,
            children=self.children(),
        )

    def children(self) -> list[ChildInfo]:
        return [child.info() for child in self._children]

    def child(self, path: str) -> ChildInfo:
        return self._find(path).info()

    def watch(self, size: int = SIZE) -> Watch:
        """Watch every change from now on, here and below, until the top of the tree has stopped."""
        return Watch(size, self._watches)

    def published(self, path: str, before: ChildInfo | None, after: ChildInfo | None) -> None:
        change = Change(at=self.around.now(), path=path, before=before, after=after)
        supervisor: Supervisor | None = self
        while supervisor is not None:
            for watch in supervisor._watches:
                watch.put(change)
            supervisor = supervisor._above
        self.around.publish(change)

    async def start(self) -> None:
        """Start the children, each when the one before it is ready. If one cannot be started, stop the others and raise
        `CannotStart`; raise it also after a stop meanwhile, unless a significant child ended well."""
        if self.status not in OVER and self.status is not Status.CREATED:
            raise WrongStatus(f"{self.path or self.name}: is {self.status} and cannot be started again")
        self.status = Status.STARTING
        self._since = self.around.now()
        self.together.begin()
        if self._above is None:
            self.instance()
            self.forget_requests()
            for child in self.all_below():
                child.restarts = 0
                child.publish()
        for child in self._children:
            if child.removal is None:
                child.renew()
                child.begin()
        try:
            async with self.together.starting:
                await self._start_in_order()
        except Exception as error:
            await insist(self._halt(Status.FAILED, str(error) or repr(error)))
            raise
        except asyncio.CancelledError:
            await insist(self._halt(error="stopped while it was starting"))
            raise
        if not self.halting:
            self.status = Status.SUSPENDED if self._suspended else Status.RUNNING
            return
        await insist(self._halt())
        if self.status is not Status.FINISHED:
            raise CannotStart(self.path or self.name, self.ended.result().error or "stopped while it was starting")

    async def _start_in_order(self) -> None:
        for child in list(self._children):
            if not self.halting and not child.stays_down:
                failure = await child.up(strict=not self.spec.tolerant)
                if failure is not None and not self.spec.tolerant:
                    raise CannotStart(child.path, child.reason)

    def forget_requests(self) -> None:
        """Treat children that were stopped or suspended by hand like the rest."""
        self._suspended = False
        for child in self._children:
            child.held = child.to_be_suspended = False
            if child.nested is not None:
                child.nested.forget_requests()

    async def stop(self, timeout: float = 0.0) -> None:
        """Stop the children in reverse order, each within its own limit and not within `timeout`; return when all are
        down. May be called again."""
        if self.status is Status.CREATED:
            self.status = Status.STOPPED
            self._end_watches()
        elif self.status not in OVER:
            # It continues if the caller is cancelled.
            await asyncio.wait([self._halt()])

    def _halt(self, status: Status = Status.STOPPED, error: str = "") -> "asyncio.Task[None]":
        self.together.halting.set()
        if self._stopping is None:
            exit = Exit(at=self.around.now(), code=None if error else 0, error=error)
            self._stopping = asyncio.get_running_loop().create_task(self._stop_all(status, exit))
        return self._stopping

    async def _stop_all(self, status: Status, exit: Exit) -> None:
        self.status = Status.STOPPING
        children = self._children[::-1]
        for child in children:
            if child.status is Status.PENDING:
                # Its backoff may be over before it is its turn.
                child.lower()
        if self.spec.stop_together:
            await asyncio.gather(*(child.down() for child in children))
        for child in children:
            await child.down()
        await self.together.end()
        for child in children:
            await child.end()
        await self._tasks.end()
        if self._above is None:
            await self.around.close()
            self._end_watches()
        self.status = status
        self._stopping = None
        self.settle(exit)

    def _end_watches(self) -> None:
        for watch in self._watches:
            watch.end()
        self._watches.clear()

    @property
    def halting(self) -> bool:
        """Whether nothing more may start."""
        return self.together.halting.is_set()

    def kill(self) -> None:
        """Make the present or next stop end at once."""
        self.together.halting.set()
        for child in reversed(self._children):
            child.kill()

    async def wait(self) -> Exit:
        """Wait until it has stopped or failed; return its exit."""
        if not hasattr(self, "ended"):
            raise WrongStatus(f"{self.path or self.name}: is {self.status}; start it before waiting for its end")
        await asyncio.wait([self.ended])
        return self.ended.result()

    async def __aenter__(self) -> "Supervisor":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def instance(self) -> Instance:
        """Begin another life."""
        self.ended = asyncio.get_running_loop().create_future()
        return self

    def collapse(self, child: ChildRunner, exit: Exit) -> None:
        """End because a child has ended for good."""
        if not self.halting:
            well = exit.ok and not child.exhausted
            error = "" if well else f"{child.path}: {child.reason or exit}"
            self._halt(Status.FINISHED if well else Status.FAILED, error)

    def _members(self, ended: Container[ChildRunner]) -> list[ChildRunner]:
        """Return the children to restart when those have ended."""
        if self.spec.strategy is Strategy.ONE_FOR_ALL:
            return list(self._children)
        indexes = [index for index, child in enumerate(self._children) if child in ended]
        if self.spec.strategy is Strategy.REST_FOR_ONE:
            return self._children[min(indexes, default=len(self._children)) :]
        return [self._children[index] for index in indexes]

    def _place(self, spec: Child, before: str | None) -> ChildRunner:
        if not isinstance(spec, Child):
            raise BadValue("child", spec, "a child: Process, Function, Container, Group")
        names = [child.spec.name for child in self._children]
        if spec.name in names:
            raise DuplicateChild(spec.name, self.path or self.name)
        if before is not None and before not in names:
            raise UnknownChild(before)
        child = ChildRunner(spec, self)
        self._children.insert(len(names) if before is None else names.index(before), child)
        return child

    async def add(self, spec: Child, *, under: str = "", before: str | None = None, start: bool = True) -> ChildInfo:
        """Add a child, last or before the one of that name; `under` is the path of its supervisor. If that runs and
        `start` is set, start the child and return when it is up, or its first start has failed."""
        if under:
            return await self._supervisor(under).add(spec, before=before, start=start)
        self._check_stays()
        child = self._place(spec, before)
        for runner in child.with_all_below():
            self.published(runner.path, None, runner.known)
        if self.status in (Status.STARTING, *UP):
            child.to_be_suspended = self._suspended
            child.begin()
            if start:
                await child.up()
        return child.info()

    async def remove(self, path: str) -> None:
        """Stop a child and forget it with its resume id. In its backoff, it never starts again."""
        child = self._find(path)
        owner = child.owner
        if child.removal is None:
            owner._check_stays()
            child.removal = owner._tasks.begin(owner._remove(child))
            for runner in child.with_all_below():
                if runner.nested is not None:
                    runner.nested._is_leaving = True
        await asyncio.wait([child.removal])

    async def _remove(self, child: ChildRunner) -> None:
        await child.down()
        await child.end()
        self._children.remove(child)
        gone = child.with_all_below()
        # All at once, before another one of the same name can be added.
        forgotten = [self.around.handover.forget(runner.path) for runner in gone]
        for runner in reversed(gone):
            self.published(runner.path, runner.known, None)
        for forgetting in forgotten:
            await forgetting

    def _check_stays(self) -> None:
        if self._is_leaving:
            raise WrongStatus(f"{self.path}: is being removed")

    async def change(self, path: str, spec: Child) -> None:
        """Replace the description of a child, and restart it under its resume id, unless it was stopped by hand. A
        supervisor changes itself and leaves its children alone."""
        child = self._find(path)
        if not isinstance(spec, Child) or spec.name != child.spec.name:
            raise BadValue("child", spec, f"a child named {child.spec.name!r}, the one it replaces")
        if isinstance(spec, Group) != (child.nested is not None):
            raise BadValue(
                "child", spec, "of the same kind: a supervisor cannot replace another child, nor the reverse"
            )
        child.owner._check_stays()
        await child.owner._tasks.run(self._change(child, spec))

    async def _change(self, child: ChildRunner, spec: Child) -> None:
        if child.nested is not None and isinstance(spec, Group):
            child.nested.spec = spec
        # Before the stop, so that a start meanwhile uses the new description.
        child.spec = spec
        child.renew()
        if child.nested is None:
            await child.down()
        if child.removal is not None:
            return
        if not child.held and child.status is not Status.PENDING:
            await child.up()

    def is_held(self, path: str) -> bool:
        """Return whether it was stopped by hand, so that it stays down."""
        return self._find(path).held

    def arrange(self, under: str, names: Sequence[str]) -> None:
        """Put the children of a supervisor into this order for future starts and stops; unnamed ones come last."""
        owner = self._supervisor(under) if under else self
        indexes = {name: index for index, name in enumerate(names)}
        owner._children.sort(key=lambda child: indexes.get(child.spec.name, len(indexes)))

    async def act(self, path: str, action: ServiceAction) -> ChildInfo:
        """Start, stop, restart, suspend or resume one child. The latest request counts."""
        child = self._find(path)
        owner = child.owner
        owner._check_stays()
        if owner.status not in UP:
            raise WrongStatus(f"{path}: cannot {action.value} while its supervisor is {owner.status}")
        child.check_possible(action)
        await owner._tasks.run(child.act(action, owner._suspended))
        return child.info()

    async def suspend(self) -> None:
        """Suspend the children that can be suspended, in reverse order; try all, and raise their errors together."""
        await self._shift(True)

    async def resume(self) -> None:
        """Resume the children in order; try all, and raise their errors together."""
        await self._shift(False)

    async def _shift(self, suspended: bool) -> None:
        self._suspended = suspended
        if self.status in UP:
            self.status = Status.SUSPENDED if suspended else Status.RUNNING
        errors = []
        for child in self._children[:: -1 if suspended else 1]:
            try:
                await (child.suspend() if suspended else child.resume())
            except Exception as error:  # noqa: BLE001 - whatever it is, the others have their turn too
                errors.append(error)
        if errors:
            done = "suspended" if suspended else "resumed"
            raise ExceptionGroup(f"{self.path or self.name}: some children could not be {done}", errors)

    def _find(self, path: str) -> ChildRunner:
        children = {child.path: child for child in self.all_below()}
        if path not in children:
            raise UnknownChild(path, did_you_mean(path, children))
        return children[path]

    def _supervisor(self, path: str) -> "Supervisor":
        nested = self._find(path).nested
        if nested is None:
            raise WrongStatus(f"{path}: is not a supervisor")
        return nested

    def all_below(self) -> list[ChildRunner]:
        return [runner for child in self._children for runner in child.with_all_below()]
