"""What one life of a child hands to the next: its resume id, and how it ended."""

import asyncio
from collections.abc import Awaitable

import pytest

from interlock.error import CannotStart
from interlock.model.child_info import Exit, Kept, Status
from interlock.ports.handover import Handover, MemoryHandover
from interlock.supervision import Birth, ChildContext, Function, Group, ServiceAction
from tests.supervision.stage import AFTER_1, AT_ONCE, Stage, at, now, quiet, running, status, supervisor, virtually

pytestmark = pytest.mark.behaviour("SUP-7")

run_test = virtually


class Recording(Handover):
    """Takes a second to store anything, and notes on the stage when it has begun and when that is done."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.kept: dict[str, Kept] = {}

    async def recall(self, path: str) -> Kept | None:
        self.stage.note("recall", path)
        return self.kept.get(path)

    def keep(self, path: str, kept: Kept) -> Awaitable[None]:
        self.stage.note(f"keep {'nothing' if kept.last_exit is None else kept.last_exit.status}", path)
        self.kept[path] = kept
        return asyncio.ensure_future(self._stored("kept", path))

    def forget(self, path: str) -> Awaitable[None]:
        self.stage.note("forget", path)
        self.kept.pop(path, None)
        return asyncio.ensure_future(self._stored("forgotten", path))

    async def _stored(self, word: str, path: str) -> None:
        await asyncio.sleep(1)
        self.stage.note(word, path)


async def test_the_resume_id_lasts_over_restarts_and_the_last_exit_comes_with_it(stage: Stage) -> None:
    async with running(stage.child("a"), stage.child("b")):
        await stage.end("a", code=7)
        await stage.end("a", signal=9)
        await stage.end("a", error="not well", code=None)
        births = [life.birth for life in stage.part("a").lives]
        assert len({birth.resume_id for birth in births}) == 1
        assert [birth.restarts for birth in births] == [0, 1, 2, 3]
        environments = [birth.environment() for birth in births]
        assert [found["INTERLOCK_PREV_EXIT"] for found in environments] == ["-1", "7", "-1", "-1"]
        assert [found.get("INTERLOCK_PREV_SIGNAL") for found in environments] == [None, None, "9", None]
        assert {found["INTERLOCK_RESUME_ID"] for found in environments} == {births[0].resume_id}
        assert stage.live("b").birth.resume_id != births[0].resume_id


async def test_a_function_is_told_the_same() -> None:
    told: list[tuple[str, int, int]] = []

    async def run(context: ChildContext) -> None:
        told.append((context.resume_id, context.previous_exit, context.restarts))
        if len(told) == 1:
            raise SystemExit(3)
        if len(told) == 2:
            raise ValueError("no")
        await asyncio.Event().wait()

    async with running(Function(name="a", run=run, backoff=AT_ONCE)):
        await quiet()
        assert [one[1:] for one in told] == [(-1, 0), (3, 1), (-1, 2)]
        assert len({one[0] for one in told}) == 1


async def test_the_resume_id_lasts_over_supervisors_that_share_a_handover() -> None:
    handover = MemoryHandover()
    births: list[Birth] = []
    for _ in range(3):
        stage = Stage()
        group = Group(name="g", children=[stage.child("a")])
        async with running(group, handover=handover):
            births.append(stage.live("a").birth)
    assert len({birth.resume_id for birth in births}) == 1
    # It was stopped each time, which was seen.
    assert [birth.previous and birth.previous.code for birth in births] == [None, 0, 0]


async def test_an_end_that_nobody_saw_is_not_taken_for_the_one_before(stage: Stage) -> None:
    handover = MemoryHandover()
    tree = supervisor(stage.child("a"), handover=handover)
    await tree.start()
    await stage.end("a", code=5)
    assert stage.live("a").birth.previous == Exit(at=0, code=5)
    # As if the whole host died now: what the next one finds is what is kept at this moment.
    found = await handover.recall("a")
    assert found is not None
    assert found.last_exit is None
    later = Stage()
    async with running(later.child("a"), handover=handover):
        birth = later.live("a").birth
        assert birth.resume_id == found.resume_id
        assert birth.previous is None
        assert birth.environment()["INTERLOCK_PREV_EXIT"] == "-1"
    await tree.stop()


async def test_a_new_resume_id_is_stored_before_the_first_start_and_what_follows_is_not_waited_for(
    stage: Stage,
) -> None:
    async with running(stage.child("a"), handover=Recording(stage)):
        assert now() == 1
        assert stage.take() == ["recall a", "keep nothing a", "kept a", "start a"]
        await stage.end("a", code=4)
        assert stage.take() == ["end a", "keep 4 a", "keep nothing a", "start a"]
        await at(3)
        assert stage.take() == ["kept a", "kept a"]
    assert stage.take() == ["stop a", "keep 0 a"]
    await at(5)


@pytest.mark.behaviour("SUP-6")
async def test_removed_and_added_again_it_has_another_resume_id(stage: Stage) -> None:
    async with running(Group(name="g", children=[stage.child("a"), stage.child("b")]), stage.child("c")) as tree:
        before = {name: stage.live(name).birth.resume_id for name in "abc"}
        await tree.remove("g")
        await tree.add(Group(name="g", children=[stage.child("a"), stage.child("b")]))
        after = {name: stage.live(name).birth.resume_id for name in "abc"}
        assert [before[name] == after[name] for name in "abc"] == [False, False, True]
        assert stage.live("a").birth.previous is None


@pytest.mark.behaviour("SUP-6")
async def test_everything_below_is_forgotten_before_a_name_can_be_taken_again(stage: Stage) -> None:
    group = Group(name="g", children=[stage.child("a"), stage.child("b")])
    async with running(group, handover=Recording(stage)) as tree:
        stage.take()
        removing = asyncio.ensure_future(tree.remove("g"))
        await quiet()
        assert not removing.done()
        notes = stage.take()
        assert notes[:4] == ["stop b", "keep 0 g/b", "stop a", "keep 0 g/a"]
        assert notes[4:] == ["forget g", "forget g/a", "forget g/b"]
        # It is not stored yet, but the order in which it will be is settled.
        await tree.add(Group(name="g", children=[stage.child("a")]))
        await removing
        assert stage.live("a").birth.previous is None
    await at(now() + 2)


@pytest.mark.behaviour("SUP-6")
async def test_a_stop_of_everything_waits_until_what_was_removed_is_forgotten(stage: Stage) -> None:
    tree = supervisor(stage.child("a"), handover=Recording(stage))
    await tree.start()
    removing = asyncio.ensure_future(tree.remove("a"))
    await quiet()
    stage.take()
    await tree.stop()
    assert "forgotten a" in stage.take()
    await removing


async def test_one_that_is_stopped_before_it_was_started_keeps_what_it_had(stage: Stage) -> None:
    """It was made, or not even that: the life before is still the last one."""
    handover = MemoryHandover()
    async with running(stage.child("a", backoff=AFTER_1), handover=handover) as tree:
        await stage.end("a", code=6)
        acting = asyncio.ensure_future(tree.act("a", ServiceAction.START))
        with tree.watch() as watch:
            await anext(watch)
        assert status(tree, "a") is Status.STARTING
        await tree.act("a", ServiceAction.STOP)
        await acting
        found = await handover.recall("a")
        assert found is not None
        assert found.last_exit == Exit(at=0, code=6)
        assert tree.child("a").last_exit == Exit(at=0, code=6)
        assert len(stage.part("a").lives) == 1
        await tree.act("a", ServiceAction.START)
        assert stage.live("a").birth.previous == Exit(at=0, code=6)


class Broken(MemoryHandover):
    """Recalls nothing for a while: raises, or never answers."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[BaseException | None] = []
        self.cannot_keep = False

    def keep(self, path: str, kept: Kept) -> Awaitable[None]:
        if kept.last_exit is not None and self.cannot_keep:
            raise OSError("disk")
        return super().keep(path, kept)

    async def recall(self, path: str) -> Kept | None:
        if self.faults:
            fault = self.faults.pop(0)
            if fault is not None:
                raise fault
            await asyncio.Event().wait()
        return await super().recall(path)


@pytest.mark.behaviour("SUP-11")
@pytest.mark.parametrize(
    ("fault", "reason"), [(OSError("disk"), "OSError: disk"), (asyncio.CancelledError(), "cancelled")]
)
async def test_a_recall_that_fails_is_one_more_failure(stage: Stage, fault: BaseException, reason: str) -> None:
    handover = Broken()
    async with running(handover=handover) as tree:
        handover.faults = [fault]
        info = await tree.add(stage.child("a", backoff=AFTER_1))
        assert (info.status, info.reason) == (Status.PENDING, reason)
        await at(1)
        assert status(tree, "a") is Status.RUNNING
    handover.faults = [fault]
    with pytest.raises(CannotStart):
        await supervisor(stage.child("b"), handover=handover).start()


@pytest.mark.behaviour("SUP-11")
async def test_a_recall_that_never_answers_does_not_keep_anybody_from_stopping(stage: Stage) -> None:
    handover = Broken()
    handover.faults = [None, None]
    async with running(handover=handover) as tree:
        adding = [asyncio.ensure_future(tree.add(stage.child(name))) for name in "ab"]
        await at(1)
        assert [status(tree, name) for name in "ab"] == ["starting", "starting"]
        await tree.remove("a")
    await asyncio.gather(*adding)
    assert status(tree, "b") is Status.STOPPED
    assert stage.take() == []
    assert now() == 1


@pytest.mark.behaviour("SUP-11")
async def test_an_end_that_cannot_be_kept_does_not_keep_it_from_being_started_again(stage: Stage) -> None:
    handover = Broken()
    handover.cannot_keep = True
    async with running(stage.child("a"), handover=handover) as tree:
        await stage.end("a", code=3)
        assert status(tree, "a") is Status.RUNNING
        # It is known as long as this supervisor is there.
        assert stage.live("a").birth.previous == Exit(at=0, code=3)
