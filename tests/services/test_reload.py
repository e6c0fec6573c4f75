"""Files that are read again while everything runs: what has changed is changed, and nothing else."""

import re
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.helpers.processes import alive, wait_until
from tests.helpers.server import interlock
from tests.services.keeper import Keeper, gone, group, kept, kill, service

READY = "ready: {log: is ready}"
NEVER_AGAIN = "backoff: {initial: 1h, max: 1h}"
CRASHES = '[sh, -c, "echo $INTERLOCK_RESUME_ID; exit 1"]'


@pytest.fixture(scope="module")
def shared() -> Iterator[Keeper]:
    with kept(steady=service("steady", command='[sleep, "1000"]')) as keeper:
        yield keeper


@pytest.fixture
def keeper(shared: Keeper) -> Iterator[Keeper]:
    """With one service that no test touches, and that nothing may happen to."""
    before = shared.pid_of("steady")
    (shared.folder / "notes").unlink(missing_ok=True)
    yield shared
    for path in shared.declared.iterdir():
        if path.stem != "steady":
            path.unlink()
    assert shared.reload()["unchanged"] == ["steady"]
    assert shared.pid_of("steady") == before
    shared.run_one()


def by_signal(keeper: Keeper) -> str:
    said = len(keeper.said)
    keeper.send(signal.SIGHUP)
    wait_until(lambda: re.search("reloaded: .*\n|not valid YAML.*\n", keeper.said[said:]), "it says what it did")
    return keeper.said[said:]


def by_command(keeper: Keeper) -> str:
    ended = interlock(keeper.folder, "reload")
    return ended.stdout + ended.stderr


def by_request(keeper: Keeper) -> str:
    answer = keeper.local.post("/api/v1/reload")
    return answer.body.decode()


Reload = Callable[[Keeper], str]
WAYS: list[Reload] = [by_signal, by_command, by_request]
SAID: dict[Reload, str] = {
    by_signal: "reloaded: added service new; changed service other; removed service out\n",
    by_command: "added\tservice\tnew\nchanged\tservice\tother\nremoved\tservice\tout\nunchanged\tjob\t",
    by_request: '"services":{"added":["new"],"changed":["other"],"removed":["out"],"unchanged":["same","steady"]}',
}


@pytest.mark.behaviour("SUP-6", "SUP-7")
@pytest.mark.parametrize("reload", WAYS)
def test_only_what_has_changed_is_touched(keeper: Keeper, reload: Reload) -> None:
    first = [service("same", READY), service("out", READY), service("other", READY)]
    keeper.declare("a", *first)
    keeper.reload()
    before = keeper.pids("same", "out", "other")
    keeper.declare("a", service("same", READY), service("new", READY), service("other", READY, "stop_timeout: 9s"))
    assert SAID[reload] in reload(keeper)
    after = keeper.pids("same", "new", "other")
    assert after["same"] == before["same"]
    assert after["other"] != before["other"]
    assert gone(before["out"], before["other"])
    assert keeper.status("out") == "absent"
    assert len(keeper.lives("same")) == 1
    # What is changed is the same service; what is removed and added again is another one.
    assert len({life.resume_id for life in keeper.lives("other")}) == 1
    keeper.declare("a", *first)
    keeper.reload()
    keeper.pids("same", "out", "other")
    assert [len({life.resume_id for life in keeper.lives(name)}) for name in ("same", "out", "other")] == [1, 2, 1]
    assert keeper.lives("out")[1].previous == -1


@pytest.mark.behaviour("SUP-6")
@pytest.mark.parametrize("reload", WAYS)
def test_a_file_that_makes_no_sense_changes_nothing(keeper: Keeper, reload: Reload) -> None:
    keeper.declare("a", service("one"))
    keeper.declare("b", service("two"))
    keeper.reload()
    before = keeper.pids("one", "two")
    keeper.declare("a", service("one", "stop_timeout: 9s"), service("three"))
    path = keeper.declare("b", service("two", "restart: sometimes"), "---\n}{\n")
    said = len(keeper.said)
    shown = reload(keeper)
    for text in (shown, keeper.said[said:]):
        assert f"{path}:7: restart: 'sometimes' is not one of always, on_failure, never" in text
        assert f"{path}:9: not valid YAML" in text
    assert keeper.pids("one", "two") == before
    assert keeper.status("three") == "absent"
    keeper.declare("b", service("two"))
    assert keeper.reload() == {"added": ["three"], "changed": ["one"], "removed": [], "unchanged": ["two", "steady"]}


@pytest.mark.behaviour("SUP-2", "SUP-6")
def test_a_group_takes_on_another_strategy_and_another_order(keeper: Keeper) -> None:
    def declare(strategy: str, *names: str) -> None:
        members = [service(name, "group: shop", READY, "backoff: {initial: 0s}") for name in names]
        keeper.declare("a", group("shop", f"strategy: {strategy}"), *members)

    declare("one_for_one", "a", "b")
    keeper.reload()
    before = keeper.pids("a", "b")
    declare("one_for_all", "b", "c", "a")
    changes = keeper.reload()
    assert (changes["added"], changes["changed"], changes["unchanged"]) == (["c"], ["shop"], ["b", "a", "steady"])
    assert keeper.pids("a", "b") == before
    assert [one["name"] for one in keeper.child("shop")["children"]] == ["b", "c", "a"]
    since = len(keeper.notes())
    kill(before["b"])
    wait_until(lambda: keeper.notes()[since:][-1:] == ["a ready"], "all of it is up again")
    assert keeper.notes()[since:] == [
        "a term", "c term", "b start", "b ready", "c start", "c ready", "a start", "a ready",
    ]  # fmt: skip


@pytest.mark.behaviour("SUP-6", "SUP-7")
@pytest.mark.parametrize(("old", "new"), [("first", "last"), ("last", "first"), ("first", "none"), ("none", "last")])
def test_a_service_that_moves_is_still_the_same(keeper: Keeper, old: str, new: str) -> None:
    def declare(where: str) -> None:
        in_group = [] if where == "none" else [f"group: {where}"]
        keeper.declare(
            "a", group("first"), service("stays", "group: first"), group("last"), service("moves", *in_group)
        )

    declare(old)
    keeper.reload()
    before = keeper.pids("moves", "stays")
    kill(before["moves"], signal.SIGUSR1)
    wait_until(lambda: len(keeper.lives("moves")) == 2, "it has another life")
    keeper.pid_of("moves")
    declare(new)
    assert keeper.reload()["changed"] == ["moves"]
    assert keeper.pid_of("stays") == before["stays"]
    keeper.pid_of("moves")
    wait_until(lambda: keeper.notes("moves")[-1] == "moves ready", "it is up")
    # It was there once at a time, and knows how its last life ended.
    assert keeper.notes("moves") == ["moves start", "moves ready"] * 2 + ["moves term", "moves start", "moves ready"]
    assert len({life.resume_id for life in keeper.lives("moves")}) == 1
    assert [life.previous for life in keeper.lives("moves")] == [-1, 3, 0]


@pytest.mark.behaviour("SUP-6", "SUP-7")
def test_a_group_that_moves_takes_its_services_along(keeper: Keeper) -> None:
    def declare(*lines: str) -> None:
        keeper.declare("a", group("outer"), group("inner", *lines), service("deep", "group: inner"))

    declare()
    keeper.reload()
    before = keeper.pid_of("deep")
    declare("group: outer")
    assert keeper.reload()["changed"] == ["inner", "deep"]
    assert keeper.child("deep")["path"] == "services/outer/inner/deep"
    assert keeper.pid_of("deep") != before
    assert len({life.resume_id for life in keeper.lives("deep")}) == 1
    # A name may go from a group to a service, which is then something else.
    keeper.declare("a", service("inner"), group("deep"))
    assert keeper.reload()["changed"] == ["inner", "deep"]
    assert (keeper.child("inner")["kind"], keeper.child("deep")["kind"]) == ("process", "supervisor")


@pytest.mark.behaviour("SUP-6")
def test_services_that_wait_to_be_started_again(keeper: Keeper) -> None:
    crashing = {name: service(name, NEVER_AGAIN, command=CRASHES) for name in ("fixed", "dropped", "left")}
    keeper.declare("a", *crashing.values())
    keeper.reload()
    for name in crashing:
        keeper.until(name, "pending")
    due = keeper.child("left")["next_try_at"]
    keeper.declare("a", service("fixed", READY), crashing["left"])
    assert keeper.reload() == {
        "added": [],
        "changed": ["fixed"],
        "removed": ["dropped"],
        "unchanged": ["left", "steady"],
    }
    keeper.pid_of("fixed")
    assert (keeper.status("left"), keeper.child("left")["next_try_at"]) == ("pending", due)
    assert f"stdout: {keeper.lives('fixed')[0].resume_id}" in keeper.log("fixed")
    assert keeper.status("dropped") == "absent"
    assert len([line for line in keeper.log("dropped") if line.startswith("stdout")]) == 1


@pytest.mark.behaviour("SUP-6", "SUP-10")
def test_while_one_takes_long_to_end_and_is_wanted_again(keeper: Keeper) -> None:
    keeper.make_deaf("slow")
    keeper.declare("a", service("slow", READY, "stop_timeout: 500ms"), service("quick"))
    keeper.reload()
    before = keeper.pids("slow", "quick")
    with ThreadPoolExecutor() as threads:
        keeper.declare("a", service("quick"))
        first = threads.submit(keeper.reload)
        wait_until(lambda: "slow term" in keeper.notes(), "it has been asked to end")
        assert keeper.status("slow") == "stopping"
        keeper.declare("a", service("slow", READY), service("quick"))
        second = threads.submit(keeper.reload)
        assert keeper.local.post("/api/v1/services/slow/start").code == "wrong_status"
        assert alive(before["slow"])
        assert first.result()["removed"] == ["slow"]
        assert second.result()["added"] == ["slow"]
    assert gone(before["slow"])
    assert keeper.pid_of("quick") == before["quick"]
    keeper.pid_of("slow")
    assert len({life.resume_id for life in keeper.lives("slow")}) == 2
    (keeper.folder / "slow.deaf").unlink()


@pytest.mark.behaviour("SUP-1", "SUP-6")
def test_while_one_takes_long_to_get_ready(keeper: Keeper) -> None:
    """Those after it wait for it; a file that says something else does not have to."""
    keeper.hold_up("slow")
    with ThreadPoolExecutor() as threads:
        keeper.declare("a", service("slow", READY), service("next"))
        first = threads.submit(keeper.reload)
        wait_until(lambda: "slow start" in keeper.notes(), "it has been started")
        keeper.declare("a", service("slow", READY), service("next"), service("last"))
        second = threads.submit(keeper.reload)
        wait_until(lambda: keeper.status("last") != "absent", "it is known")
        assert [keeper.status(name) for name in ("slow", "next", "last")] == ["starting", "created", "created"]
        assert not first.done()
        keeper.declare("a", service("next"), service("last"))
        third = threads.submit(keeper.reload)
        assert [one.result()["added"] for one in (first, second)] == [["slow", "next"], ["last"]]
        assert third.result()["removed"] == ["slow"]
    wait_until(lambda: {"next ready", "last ready"} <= set(keeper.notes()), "the others are up")
    assert keeper.notes("slow") == ["slow start", "slow term"]
    assert keeper.notes().index("slow term") < keeper.notes().index("next start") < keeper.notes().index("last start")
    keeper.let_go("slow")


@pytest.mark.behaviour("SUP-6")
def test_many_reloads_at_once(keeper: Keeper) -> None:
    keeper.declare("a", *(service(f"s{number}", READY) for number in range(5)))
    with ThreadPoolExecutor() as threads:
        found = [one.result() for one in [threads.submit(keeper.reload) for _ in range(8)]]
    assert [len(one["added"]) for one in sorted(found, key=lambda one: one["added"])] == [0] * 7 + [5]
    pids = keeper.pids(*(f"s{number}" for number in range(5)))
    assert [len(keeper.lives(name)) for name in pids] == [1] * 5
    assert [note.split()[0] for note in keeper.notes() if note.endswith("start")] == list(pids)


def test_a_service_whose_program_is_missing_is_no_fault_of_the_file(keeper: Keeper) -> None:
    keeper.declare("a", service("missing", NEVER_AGAIN, command="[/nowhere/at/all]"), service("next"))
    assert keeper.reload()["added"] == ["missing", "next"]
    keeper.pid_of("next")
    assert keeper.child("missing")["reason"] == "command: '/nowhere/at/all' is not found"
