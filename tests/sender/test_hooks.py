"""Hooks: each is called once, however often the scheduler asks."""

from collections.abc import Iterator

import pytest

from interlock.sender.hooks import MOST_REMEMBERED, REMEMBERED
from interlock.sender.places import MOST, MOST_PER_HOST
from interlock.sender.transport import ReceivedAnswer
from interlock.wire.delivery_request import ForgetHook, HookAnswered
from tests.sender.stage import OK, Stage, hook


@pytest.fixture
def stage() -> Iterator[Stage]:
    with_stage = Stage(lambda host, id, nth: (1.0, OK))
    with_stage.start()
    with_stage.run(0.1)
    yield with_stage
    with_stage.stop()
    with_stage.loop.close()


def test_a_hook_that_is_asked_for_again_is_called_once(stage: Stage) -> None:
    stage.do(stage.scheduler.send, hook("r"), hook("r"))
    stage.run(0.5)
    stage.do(stage.scheduler.send, hook("r"))
    stage.run(1)
    assert stage.scheduler.answers == [HookAnswered("r", 1, 200, "")]
    stage.do(stage.scheduler.send, hook("r"), hook("r", seq=2))
    stage.run(2)
    assert stage.scheduler.answers[1:] == [HookAnswered("r", 1, 200, ""), HookAnswered("r", 2, 200, "")]
    assert stage.receivers.ids("a") == ["r-1", "r-2"]


def test_a_failure_is_answered_and_not_repeated(stage: Stage) -> None:
    stage.receivers._script = lambda host, id, nth: (0.0, ReceivedAnswer(None, "", "no answer within 10s"))
    stage.do(stage.scheduler.send, hook("r"))
    stage.run(3600)
    assert stage.scheduler.answers == [HookAnswered("r", 1, None, "no answer within 10s")]
    assert stage.receivers.ids("a") == ["r-1"]


def test_answers_are_forgotten_after_a_minute(stage: Stage) -> None:
    stage.do(stage.scheduler.send, hook("r"))
    stage.run(2 + REMEMBERED)
    stage.do(stage.scheduler.send, hook("r"))
    stage.run(2)
    assert stage.receivers.ids("a") == ["r-1", "r-1"]


def test_no_more_than_a_thousand_answers_are_remembered(stage: Stage) -> None:
    stage.receivers._script = lambda host, id, nth: (0.0, OK)
    names = [f"r{n}" for n in range(MOST_REMEMBERED + 1)]
    stage.do(stage.scheduler.send, *map(hook, names))
    stage.run(10)
    assert len(stage.receivers.posts) == len(stage.scheduler.answers) == len(names)
    stage.do(stage.scheduler.send, hook(names[0]), hook(names[-1]))
    stage.run(1)
    assert len(stage.scheduler.answers) == len(names) + 2
    assert stage.receivers.ids("a")[len(names) :] == [f"{names[0]}-1"]


def test_hooks_have_places_of_their_own(stage: Stage) -> None:
    for host in "abcdefgh":
        stage.owe(*(f"{host}{n}" for n in range(100)), host=host)
    hooks = [hook(f"{host}{n}", host=host) for host in "pqrstu" for n in range(20)]
    stage.do(stage.scheduler.send, *hooks)
    stage.run(0.5)
    assert stage.receivers.most["all"] == 2 * MOST + 2, "a host without a request finds a place"
    assert stage.receivers.most["p"] == MOST_PER_HOST
    stage.run(10)
    assert len(stage.scheduler.answers) == len(hooks)


def test_a_hook_goes_on_when_the_link_breaks_and_its_answer_is_given_when_asked_again(stage: Stage) -> None:
    many = [hook(f"r{n}") for n in range(MOST_PER_HOST + 5)]
    stage.do(stage.scheduler.send, *many)
    stage.run(0.5)
    assert stage.scheduler.peer is not None
    stage.do(stage.scheduler.peer.close)
    stage.run(0.1)
    assert stage.scheduler.registered == 2
    stage.do(stage.scheduler.send, *many)
    stage.run(3)
    assert sorted(one.run_id for one in stage.scheduler.answers) == sorted(one.run_id for one in many)
    assert len(stage.receivers.posts) == len(many)


def test_a_hook_whose_run_has_ended_is_not_made(stage: Stage) -> None:
    names = [f"r{n}" for n in range(MOST_PER_HOST + 2)]
    stage.do(stage.scheduler.send, *(hook(name) for name in names))
    stage.do(stage.scheduler.send, ForgetHook(names[-1]), ForgetHook("nobody"))
    stage.run(10)
    assert stage.receivers.ids("a") == [f"{name}-1" for name in names[:-1]]
