"""Random trees under random events, held against what must be true at every moment."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from random import Random
from typing import Any

import msgspec
import pytest

from interlock.error import CannotStart, InterlockError
from interlock.model.child_info import OVER, UP, Change, ChildInfo, ServiceAction, Status
from interlock.supervision import Backoff, Budget, Child, Group, OnExhausted, Restart, Strategy, Supervisor, Watch
from tests.supervision.stage import Actor, Stage, at, cannot, now, quiet, supervisor, virtually

SEEDS = range(240)
AT_ONE_GO = 40
STEPS = 60
DOWN = (*OVER, Status.CREATED, Status.PENDING)

FOLLOWS: dict[str | None, set[str | None]] = {
    None: {"created"},
    "created": {"starting", None},
    "starting": {"running", "suspended", "stopping", "stopped", "pending", "starting", "failed", "finished", "killed"},
    "running": {"suspended", "stopping", "stopped", "pending", "starting", "failed", "finished", "killed"},
    "suspended": {"running", "starting", "stopping", "stopped", "pending", "failed", "finished", "killed"},
    "pending": {"starting", "stopped", "pending"},
    "stopping": {"stopped", "killed", "pending", "starting", "failed"},
    "stopped": {"starting", "pending", None},
    "finished": {"starting", "pending", None},
    "killed": {"starting", "pending", None},
    "failed": {"starting", "pending", None},
}
"""what may come after what"""


class World:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.stage = Stage()
        self.log: list[str] = []
        self.doing: dict[asyncio.Task[Any], str] = {}
        self.tree = self.make_tree()
        self.watch: Watch | None = None
        self.last: dict[str, ChildInfo | None] = {info.path: bare(info) for info in self.infos()}
        """what was told of each child last"""

    # A tree.

    def make_tree(self) -> Supervisor:
        pick = self.random
        children = [self.child(f"c{place}", 2) for place in range(pick.randint(1, 4))]
        return supervisor(*children, strategy=pick.choice(list(Strategy)))

    def child(self, name: str, levels: int) -> Child:
        pick = self.random
        common: dict[str, Any] = {
            "restart": pick.choice([Restart.ALWAYS, Restart.ALWAYS, Restart.ON_FAILURE, Restart.NEVER]),
            "backoff": pick.choice([Backoff(initial=0), Backoff(initial=0.5, max=2), Backoff(initial=3)]),
            "budget": Budget(
                max_restarts=pick.choice([0, 1, 2, 4]),
                max_duration=pick.choice([1, 10]),
                on_exhausted=pick.choice([OnExhausted.STOP_CHILD, OnExhausted.FAIL_SUPERVISOR]),
            ),
        }
        if levels and pick.random() < 0.35:
            return Group(
                name=name,
                strategy=pick.choice(list(Strategy)),
                children=[self.child(f"d{place}", levels - 1) for place in range(pick.randint(0, 3))],
                tolerant=pick.random() < 0.4,
                stop_together=pick.random() < 0.2,
                **common,
            )
        part = self.stage.part(name)
        part.can_suspend = pick.random() < 0.7
        return self.stage.child(name, stop_timeout=2, significant=pick.random() < 0.05, **common)

    def infos(self) -> Iterator[ChildInfo]:
        return below(self.tree.info())

    def paths(self, groups: bool | None = None) -> list[str]:
        return [info.path for info in self.infos() if groups is None or (info.strategy is not None) is groups]

    # What happens.

    async def step(self) -> None:
        if self.tree.status in DOWN:
            await self.start()
            return
        actions: list[tuple[int, Callable[[], Any]]] = [
            (12, self.let_one_end),
            (6, self.change_a_part),
            (5, self.act),
            (3, self.add),
            (2, self.remove),
            (1, self.change),
            (1, self.suspend_or_resume),
            (1, self.cancel_one),
            (1, self.stop),
        ]
        weights = [weight for weight, _ in actions]
        self.random.choices([action for _, action in actions], weights)[0]()
        if self.random.random() < 0.5:
            await at(now() + self.random.choice([0, 0.25, 0.5, 1, 4]))
        else:
            # In the middle of what is happening.
            for _ in range(self.random.randint(0, 12)):
                await asyncio.sleep(0)
                self.check_always()

    async def start(self) -> None:
        """Nothing comes between: then the order is known."""
        self.take_changes()
        self.watch = self.tree.watch()
        # While it was down, nobody was told of what was added or removed.
        self.last = {info.path: bare(info) for info in self.infos()}
        await quiet()
        self.stage.started.clear()
        self.log.append("start")
        order = [info.path for info in self.infos() if info.strategy is None]
        failing = any(part.failures for part in self.stage.parts.values())
        try:
            await self.tree.start()
        except CannotStart as error:
            self.log.append(f"  {error}")
        # Unless a group goes on without one that could not be started, which then comes later.
        if not failing:
            firsts = list(dict.fromkeys(self.stage.started))
            assert firsts == [path for path in order if path in firsts], "children are started in order"

    def let_one_end(self) -> None:
        if self.stage.alive:
            actor = self.random.choice(self.stage.alive)
            code, signal = self.random.choice([(0, None), (1, None), (1, None), (None, 9)])
            self.log.append(f"{actor.birth.path} ends: code {code}, signal {signal}")
            actor.end(code, signal=signal)

    def change_a_part(self) -> None:
        pick = self.random
        part = self.stage.part(pick.choice(list(self.stage.parts) or ["c0"]))
        part.start_takes = pick.choice([0, 0, 0, 0.5, 3])
        part.stop_takes = pick.choice([0, 0, 0, 0.5, 1])
        part.shift_takes = pick.choice([0, 0, 1])
        part.failures = pick.choice([[], [], [cannot("x")], [None, cannot("x"), cannot("x")]])
        part.shift_raises = pick.choice([[], [], [None, ValueError("not now")], [ValueError("not now")]])
        part.stop_raises = pick.choice([None, None, None, ValueError("no")])

    def act(self) -> None:
        if paths := self.paths():
            path, action = self.random.choice(paths), self.random.choice(list(ServiceAction))
            self.do(f"{action} {path}", self.tree.act(path, action))

    def add(self) -> None:
        under = self.random.choice(["", *self.paths(groups=True)])
        name = self.random.choice(["c0", "d0", "e0", "e1"])
        child = self.child(name, 1)
        self.do(f"add {name} under {under or 'the top'}", self.tree.add(child, under=under))

    def remove(self) -> None:
        if paths := self.paths():
            path = self.random.choice(paths)
            self.do(f"remove {path}", self.tree.remove(path))

    def change(self) -> None:
        if paths := self.paths():
            path = self.random.choice(paths)
            child = self.child(path.rpartition("/")[2], 1)
            self.do(f"change {path}", self.tree.change(path, child))

    def suspend_or_resume(self) -> None:
        if self.random.random() < 0.5:
            self.do("suspend", self.tree.suspend())
        else:
            self.do("resume", self.tree.resume())

    def cancel_one(self) -> None:
        if self.doing:
            task = self.random.choice(list(self.doing))
            self.log.append(f"whoever wanted to {self.doing[task]} is cancelled")
            task.cancel()

    def stop(self) -> None:
        if self.random.random() < 0.3:
            self.log.append("kill")
            self.tree.kill()
        self.do("stop", self.tree.stop())

    def do(self, what: str, work: Coroutine[Any, Any, Any]) -> None:
        self.log.append(what)
        task = asyncio.ensure_future(work)
        self.doing[task] = what
        task.add_done_callback(self.done)

    def done(self, task: "asyncio.Task[Any]") -> None:
        what = self.doing.pop(task)
        error = None if task.cancelled() else task.exception()
        shifted = what.startswith(("suspend", "resume")) and str(error) == "not now"
        if error is not None and not isinstance(error, (InterlockError, ExceptionGroup)) and not shifted:
            self.log.append(f"{what} raised {error!r}")
            raise error

    # What must be true.

    def check_always(self) -> None:
        paths = [actor.birth.path for actor in self.stage.alive]
        assert len(paths) == len(set(paths)), f"two instances of one child: {paths}"
        self.take_changes()

    def take_changes(self) -> None:
        """Each continues where the one before it of the same child left off."""
        changes: list[Change] = list(self.watch._changes) if self.watch is not None else []
        if self.watch is not None:
            self.watch._changes.clear()
        for change in changes:
            assert self.last.get(change.path) == change.before
            assert change.before != change.after, "a change that is none"
            old, new = (None if one is None else one.status.value for one in (change.before, change.after))
            assert new in FOLLOWS[old] or (old == new is not None), f"{change.path}: {old} to {new}"
            self.last[change.path] = change.after

    def check(self) -> None:
        """When nothing more happens at this instant."""
        self.check_always()
        alive: dict[str, Actor] = {actor.birth.path: actor for actor in self.stage.alive}
        infos = {info.path: info for info in self.infos()}
        for path in alive:
            assert path in infos, f"{path} is alive and was removed"
        for path, info in infos.items():
            if self.tree.status not in DOWN:
                assert self.last.get(path) == bare(info), f"{path}: not everything was told"
            if info.exhausted:
                assert info.status is Status.FAILED
            assert (info.next_try_at is not None) is (info.status is Status.PENDING)
            if info.strategy is not None:
                continue
            if info.status in UP:
                assert path in alive, f"{path} is {info.status} and not alive"
            if info.status in DOWN:
                assert path not in alive, f"{path} is {info.status} and alive"
            held = self.tree.is_held(path)
            assert not held or info.status in (*OVER, Status.CREATED, Status.STOPPING), f"{path} is held"

    async def end(self) -> None:
        self.log.append("the end")
        await self.tree.stop()
        await quiet()
        self.check()
        assert [actor.birth.path for actor in self.stage.alive] == []
        assert self.doing == {}
        assert self.tree.status in OVER
        assert [info for info in self.infos() if info.status not in (*OVER, Status.CREATED)] == []
        # What was broken stays broken for a while, but not longer.
        await at(now() + 100)
        assert self.stage.alive == []


def bare(info: ChildInfo) -> ChildInfo:
    """As it is told of, without what is below."""
    return msgspec.structs.replace(info, children=[])


def below(info: ChildInfo) -> Iterator[ChildInfo]:
    for child in info.children:
        yield child
        yield from below(child)


async def live_through(seed: int) -> None:
    world = World(seed)
    try:
        for _ in range(STEPS):
            await world.step()
            if world.random.random() < 0.7:
                await quiet()
                world.check()
        await world.end()
    except BaseException:
        print(f"seed {seed}:", *world.log[-40:], sep="\n  ")  # noqa: T201 - to play it again
        raise


@pytest.mark.behaviour("SUP-1", "SUP-2", "SUP-6", "SUP-9", "SUP-11", "SUP-12")
@pytest.mark.parametrize("first", SEEDS[::AT_ONE_GO])
def test_whatever_happens(first: int) -> None:
    for seed in range(first, first + AT_ONE_GO):

        async def body(seed: int = seed) -> None:
            await live_through(seed)

        virtually(body)
