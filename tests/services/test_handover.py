"""What lasts over the lives of a service, of `interlock up`, and over a kill -9 of both; with files and no app."""

import signal
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.helpers.places import clean_folder
from tests.helpers.processes import wait_until
from tests.helpers.server import Command
from tests.services.keeper import Keeper, Life, gone, kill, service

LINES_KEPT = 4


class Story(NamedTuple):
    """What was seen of three starts of `interlock up` in a row: it is stopped with Ctrl-C, killed, and stopped."""

    lasting: list[Life]
    """of a service that ends with 3, is killed, and goes on from there"""
    removed: list[Life]
    """of one that is not in the file at the second start"""
    logs: list[list[str]]
    """of the first of them, at the end of the first and of the second start"""
    followed: list[str]
    """what `interlock logs -f` has printed of it"""
    log_of_removed: list[list[str]]
    """at the end of the second and of the third start, which is told to keep less"""
    tree: list[str]


@pytest.fixture(scope="module")
def story() -> Iterator[Story]:
    both, lasting = [service("lasting"), service("removed")], [service("lasting")]
    with clean_folder() as folder:
        keeper = Keeper(folder, target=None)
        follower = Command(folder, "interlock.cli", "logs", "-f", "lasting", name="followed")

        def until_life(number: int) -> Life:
            wait_until(lambda: keeper.notes("lasting").count("lasting ready") == number, f"life {number} is ready")
            keeper.pid_of("lasting")
            return keeper.lives("lasting")[-1]

        def log(number: int) -> list[str]:
            """As it stands once the beginning of that life is in it."""
            ready = "stdout: lasting is ready"
            wait_until(lambda: keeper.log("lasting").count(ready) == number, "it is stored")
            return keeper.log("lasting")

        try:
            keeper.declare("all", *both)
            keeper.start()
            tree = [one["path"] for one in keeper.local.get("/api/v1/tree").json["children"]]
            follower.begin()
            wait_until(lambda: "\tlasting is ready\n" in follower.said, "it is followed")
            kill(until_life(1).pid, signal.SIGUSR1)
            kill(until_life(2).pid)
            until_life(3)
            logs = [log(3)]
            assert keeper.stop() == 0
            keeper.declare("all", *lasting)
            keeper.start()
            fourth = until_life(4)
            logs.append(log(4))
            # Before the next start removes what is old.
            wait_until(lambda: follower.said.count("\tlasting is ready\n") == 4, "everything is told so far")
            log_of_removed = [keeper.log("removed")]
            keeper.kill()
            wait_until(lambda: gone(fourth.pid), "the service is gone")
            keeper.declare("all", *both)
            keeper.extra = {"INTERLOCK_LOG_LINES": str(LINES_KEPT)}
            keeper.start()
            until_life(5)
            keeper.pid_of("removed")
            log_of_removed.append(keeper.log("removed"))
            wait_until(lambda: follower.said.count("\tlasting is ready\n") == 5, "everything is told")
            assert follower.stop() == 130
            assert keeper.stop() == 0
        finally:
            follower.kill()
            keeper.kill()
        yield Story(
            keeper.lives("lasting"),
            keeper.lives("removed"),
            logs,
            follower.said.splitlines(),
            log_of_removed,
            tree,
        )


@pytest.mark.behaviour("SUP-7")
def test_the_resume_id_lasts(story: Story) -> None:
    assert len(story.lasting) == 5
    assert len({life.resume_id for life in story.lasting}) == 1
    assert len({life.pid for life in story.lasting}) == 5


@pytest.mark.behaviour("SUP-7")
def test_each_life_is_told_how_the_last_one_ended(story: Story) -> None:
    """By itself with 3, by a signal, when it was asked to, and in a way that nobody has seen."""
    assert [life.previous for life in story.lasting] == [-1, 3, -1, 0, -1]


@pytest.mark.behaviour("SUP-6", "SUP-7")
def test_what_was_taken_out_while_nothing_ran_was_removed(story: Story) -> None:
    assert [life.previous for life in story.removed] == [-1, -1]
    assert len({life.resume_id for life in story.removed}) == 2


def test_the_log_goes_on(story: Story) -> None:
    first, second = story.logs
    assert second[: len(first)] == first
    assert "status: ended with exit 3; next try in 0.1" in "\n".join(first)
    assert second[len(first) :][0] == "status: stopping"


def test_it_is_followed_over_restarts(story: Story) -> None:
    assert len(set(story.followed)) == len(story.followed), "a line is told twice"
    told = [": ".join(line.split("\t")[1:]) for line in story.followed]
    assert told[: len(story.logs[1])] == story.logs[1]


def test_old_lines_are_removed_at_the_start(story: Story) -> None:
    before, after = story.log_of_removed
    old = after[: after.index("status: added")]
    assert len(old) <= LINES_KEPT < len(before)
    assert old == before[len(before) - len(old) :]


def test_without_an_app_there_are_no_workers(story: Story) -> None:
    assert story.tree == ["gateway", "sending", "engine", "services", "workers", "housekeeping", "sweeps"]
