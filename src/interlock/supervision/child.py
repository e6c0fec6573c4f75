"""One child of a supervisor: brought up, kept up, brought down.

Each child has a task of its own that drives it towards its goal, up or down, so that no child waits for the start,
backoff or end of another.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from interlock.error import WrongStatus
from interlock.fields.duration import brief, checked
from interlock.model.child_info import OVER, UP, ChildInfo, Exit, Kept, ServiceAction, Status
from interlock.supervision.goal import Bell, Goal, unless, words
from interlock.supervision.instance import Birth, Instance
from interlock.supervision.life import Life
from interlock.supervision.restart import Restarts, decide, status_after
from interlock.supervision.spec import Child, Group, OnExhausted, Strategy

if TYPE_CHECKING:
    from interlock.supervision.supervisor import Supervisor

logger = logging.getLogger("interlock.supervision")


class ChildRunner:
    def __init__(self, spec: Child, owner: "Supervisor") -> None:
        self.spec = spec
        self.owner = owner
        self.around = owner.around
        self.path = f"{owner.path}/{spec.name}" if owner.path else spec.name
        self.nested = owner.nested(spec, self.path) if isinstance(spec, Group) else None
        self.held = False  # whether it was stopped by hand, so that it does not start with the others
        self._request: object = None  # identity of the latest request by hand
        self.removal: asyncio.Task[None] | None = None
        self.to_be_suspended = False
        self.shifting = asyncio.Lock()  # held during a suspend or resume
        self._goal: Goal | None = None  # None while it is to be down
        self._life: Life | None = None  # the present one
        self._task: asyncio.Task[None] | None = None
        self._ending = False
        self._bell = Bell()  # rings at every change
        self._kept: Kept | None = None
        self._record = Restarts(spec.backoff, spec.budget)
        self.status = Status.CREATED
        self.since: float | None = None
        self.restarts = 0
        self._next_try_at: float | None = None
        self._last_exit: Exit | None = None
        self.exhausted = False
        self.reason = ""
        self.known = self.info(deep=False)  # as it was last published

    @property
    def _instance(self) -> Instance | None:
        return self._life.instance if self._life is not None else None

    def info(self, deep: bool = True) -> ChildInfo:
        instance = self._instance
        return ChildInfo(
            path=self.path,
            name=self.spec.name,
            kind=self.spec.kind,
            status=self.status,
            pid=instance.pid if instance is not None else None,
            since=self.since,
            restarts=self.restarts,
            next_try_at=self._next_try_at,
            last_exit=self._last_exit,
            exhausted=self.exhausted,
            reason=self.reason,
            strategy=self.nested.spec.strategy if self.nested is not None else None,
            children=self.nested.children() if self.nested is not None and deep else [],
        )

    def with_all_below(self) -> "list[ChildRunner]":
        return [self, *(self.nested.all_below() if self.nested is not None else ())]

    @property
    def stays_down(self) -> bool:
        """Whether it does not start with the others."""
        return self.held or self.exhausted or self.removal is not None

    def become(self, status: Status, reason: str = "") -> None:
        self.status = status
        self.reason = reason
        if status is not Status.PENDING:
            self._next_try_at = None
        self.publish()

    def publish(self) -> None:
        before, after = self.known, self.info(deep=False)
        if before != after:
            self.known = after
            self.owner.published(self.path, before, after)
        self._bell.ring()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._bell.wait()

    def begin(self) -> None:
        """Begin to drive it, towards no goal yet."""
        self._ending = False
        # It may run on another loop than before.
        self.shifting, self._bell = asyncio.Lock(), Bell()
        self._task = asyncio.get_running_loop().create_task(self._drive(), name=f"supervise {self.path}")

    async def end(self) -> None:
        """End for good; it must be down."""
        self._ending = True
        self._bell.ring()
        task = self._task
        if task is not None:
            await asyncio.wait([task])
            if self._task is task:
                self._task = None

    def renew(self) -> None:
        """Forget its restarts, and that it was exhausted."""
        self._record = Restarts(self.spec.backoff, self.spec.budget)
        self.exhausted = False
        self.publish()

    async def up(self, strict: bool = False) -> Exit | None:
        """Bring it up. Return when it is up, when another request took it down again, or when the first start has
        failed: then that exit. With `strict` the failure is final. Do nothing while its supervisor does not run."""
        if self._task is None or self.owner.halting:
            return None
        if self._goal is None:
            self._goal = Goal(strict)
            self._bell.ring()
        elif self.status in UP:
            return None
        goal = self._goal
        failure = await goal.next_start()
        if self._life is not None and self._life.goal is goal and goal.lowered.done():
            await asyncio.wait([self._life.over])
        return failure

    async def down(self) -> None:
        """Bring it down, and keep it there."""
        self.lower()
        if self._life is not None:
            await asyncio.wait([self._life.over])
        if self._goal is None and self.status not in OVER and self.status is not Status.CREATED:
            self.become(Status.STOPPED)

    def lower(self) -> None:
        """Begin to bring it down, without waiting."""
        goal, self._goal = self._goal, None
        if goal is not None:
            goal.lower()

    def pend(self, at: float, reason: str) -> None:
        """Show that it comes up again at that wall time, together with others."""
        if self._goal is None and not self.stays_down and not self.owner.halting:
            if self.status is not Status.PENDING:
                self.restarts += 1
            self._next_try_at = at
            self.become(Status.PENDING, reason)

    def kill(self) -> None:
        """Bring it down now, by force."""
        self.lower()
        if self._life is not None:
            self._life.kill()

    def check_possible(self, action: ServiceAction) -> None:
        """Raise if an action by hand makes no sense now."""
        if self.removal is not None:
            raise WrongStatus(f"{self.path}: cannot {action.value} while it is being removed")
        if action in (ServiceAction.SUSPEND, ServiceAction.RESUME) and self.status in (*OVER, Status.CREATED):
            raise WrongStatus(f"{self.path}: cannot {action.value} while it is {self.status}")

    async def act(self, action: ServiceAction, suspended: bool) -> None:
        """Carry out an action by hand. The latest request to start or stop counts, even if an earlier one is carried
        out after it. `suspended` tells whether its supervisor is suspended, and so the children that it starts."""
        if action is ServiceAction.SUSPEND:
            if not await self.suspend():
                raise WrongStatus(
                    f"{self.path}: cannot suspend: it is a {self.spec.kind} without a way to be suspended"
                )
            return
        if action is ServiceAction.RESUME:
            await self.resume()
            return
        request = self._request = object()
        if action is not ServiceAction.START:
            self.held = True
            await self.down()
            if self.status is Status.CREATED:
                # Its turn to start has not come yet, and never will.
                self.become(Status.STOPPED)
        if action is ServiceAction.STOP or self._request is not request or self.removal is not None:
            return
        self.held = False
        self.renew()
        if self.status not in UP:
            self.to_be_suspended = suspended
            if self.nested is not None:
                self.nested.forget_requests()
        if self.status is Status.PENDING:
            self.lower()
        await self.up()

    async def suspend(self) -> bool:
        """Suspend it, now or as soon as it is up; return whether it can be suspended."""
        await self.until(lambda: self.status is not Status.STARTING)
        async with self.shifting:
            instance = self._instance
            if self.status is not Status.RUNNING or instance is None:
                self.to_be_suspended = True
            elif not instance.can_suspend:
                return False
            else:
                self.to_be_suspended = True
                await self._shift(instance, instance.suspend())
            return True

    async def resume(self) -> None:
        async with self.shifting:
            self.to_be_suspended = False
            instance = self._instance
            # Some children of a supervisor may be suspended although it is not.
            if instance is not None and self.status in UP and (self.nested or self.status is Status.SUSPENDED):
                await self._shift(instance, instance.resume())

    async def _shift(self, instance: Instance, work: Coroutine[Any, Any, None]) -> None:
        """Suspend or resume an instance, unless it ends meanwhile. A child that fails to stays as it was; a supervisor
        does not, because some of its children may have changed."""
        ended = instance.ended
        task = await unless(work, ended)
        raised = None if task.cancelled() else task.exception()
        if raised is not None and self.nested is None:
            self.to_be_suspended = not self.to_be_suspended
        elif self._life is not None and self._instance is instance and self.status in UP and not ended.done():
            resumed = Status.RUNNING if self._life.is_ready else Status.STARTING
            self.become(Status.SUSPENDED if self.to_be_suspended else resumed)
        if raised is not None:
            raise raised

    async def _drive(self) -> None:
        while not self._ending:
            goal = self._goal
            if goal is None:
                await self.until(lambda: self._goal is not None or self._ending)
            elif await self._wait_out(goal):
                life = self._life = Life(self, goal)
                try:
                    self.become(Status.STARTING)
                    exit = await life.live()
                    self._life = None
                    self._after(life, exit)
                except Exception as error:
                    # A fault of ours or of the caller's, for example in `chance`, must not go unnoticed.
                    logger.exception("%s: its restart could not be decided", self.path)
                    self._leave(Status.FAILED, words(error, self.path))
                finally:
                    self._life = None
                    life.over.set_result(None)

    async def _wait_out(self, goal: Goal) -> bool:
        """Wait for the end of its backoff; return whether the goal still stands."""
        if goal.not_before is not None:
            left = goal.not_before - asyncio.get_running_loop().time()
            await asyncio.wait([goal.lowered], timeout=max(0.0, left))
            goal.not_before = None
        return not goal.lowered.done()

    async def birth(self) -> Birth:
        """Return the facts for its next instance, with a resume id that is stored."""
        kept = self._kept or await self.around.handover.recall(self.path)
        if kept is None:
            kept = Kept(resume_id=str(uuid4()))
            await self.around.handover.keep(self.path, kept)
        self._kept = kept
        name, resume_id, previous = self.spec.name, kept.resume_id, kept.last_exit
        return Birth(path=self.path, name=name, resume_id=resume_id, previous=previous, restarts=self.restarts)

    def keep(self, exit: Exit | None) -> None:
        if self._kept is not None and self._kept.last_exit != exit:
            self._kept = Kept(resume_id=self._kept.resume_id, last_exit=exit)
            try:
                self.around.handover.keep(self.path, self._kept)
            except Exception:
                logger.exception("%s: its exit cannot be stored", self.path)

    def _after(self, life: Life, exit: Exit | None) -> None:
        if exit is not None:
            self._last_exit = exit
            self.keep(exit)
        if life.goal.lowered.done() or exit is None:
            self.become(Status.KILLED if life.forced else Status.STOPPED)
            return
        failed_start = life.up_at is None
        is_left = failed_start and life.goal.strict
        if failed_start:
            life.goal.tried(exit)
        if is_left:
            self._leave(Status.FAILED, str(exit))
        elif self.owner.halting:
            self._leave(status_after(exit), "" if exit.ok else str(exit))
        else:
            self._restart_or_not(life, exit)

    def _restart_or_not(self, life: Life, exit: Exit) -> None:
        now = asyncio.get_running_loop().time()
        self._record.lived(life.up_for)
        budget, is_allowed = self.spec.budget, self._record.allowed(now)
        strategy, policy = self.owner.spec.strategy, self.spec.restart
        decision = decide(strategy, policy, budget.on_exhausted, ended_well=exit.ok, within_budget=is_allowed)
        if decision is None:
            self._leave(status_after(exit), "" if exit.ok else str(exit))
            if self.spec.significant:
                self.owner.collapse(self, exit)
        elif isinstance(decision, OnExhausted):
            self.exhausted = True
            times = "once" if budget.max_restarts == 1 else f"{budget.max_restarts} times"
            often = f"restarted {times} within {brief(checked(budget.max_duration))}"
            self._leave(Status.FAILED, f"{exit}; {often}")
            logger.error("%s is not restarted any more: %s", self.path, self.reason)
            if decision is OnExhausted.FAIL_SUPERVISOR or self.spec.significant:
                self.owner.collapse(self, exit)
        else:
            self._again(life.goal, exit, decision, now)

    def _leave(self, status: Status, reason: str) -> None:
        self.lower()
        self.become(status, reason)

    def _again(self, goal: Goal, exit: Exit, strategy: Strategy, now: float) -> None:
        delay = self._record.take(now, self.around.chance())
        self.restarts += 1
        log = logger.info if exit.ok else logger.warning
        log("%s ended (%s); restart in %s", self.path, exit, brief(delay))
        is_alone = strategy is Strategy.ONE_FOR_ONE
        if is_alone and delay == 0:
            return
        self._next_try_at = self.around.now() + delay
        if is_alone:
            goal.not_before = now + delay
        else:
            self.lower()
        self.become(Status.PENDING, str(exit))
        if not is_alone:
            self.owner.together.want(self, now + delay)
