"""Jobs in files, without any app: they run, and at a reload only what has changed is touched."""

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers.http import seconds_of
from tests.helpers.places import clean_folder
from tests.helpers.processes import wait_until
from tests.services.keeper import Keeper, service

NO_CHANGE: dict[str, list[str]] = {"added": [], "changed": [], "removed": [], "unchanged": []}


def job(name: str, *lines: str, run: str = "{shell: echo done}") -> str:
    return "\n".join(["---", "kind: Job", f"id: {name}", f"run: {run}", *lines, ""])


@pytest.fixture(scope="module")
def shared() -> Iterator[Keeper]:
    """With a service, and nothing that workers could do."""
    with clean_folder() as place:
        keeper = Keeper(place, target=None)
        keeper.declare("steady", service("steady"))
        with keeper:
            yield keeper


@pytest.fixture
def keeper(shared: Keeper) -> Iterator[Keeper]:
    before = shared.pid_of("steady")
    yield shared
    for path in shared.declared.iterdir():
        if path.stem != "steady":
            path.unlink()
    shared.reload()
    assert shared.pid_of("steady") == before


def known(keeper: Keeper, name: str) -> dict[str, Any]:
    answer = keeper.local.get(f"/api/v1/jobs/{name}")
    assert answer.status == 200, answer
    found: dict[str, Any] = answer.json
    return found


def names(keeper: Keeper) -> list[str]:
    return [one["id"] for one in keeper.local.get("/api/v1/jobs").json["jobs"]]


def runs(keeper: Keeper, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = keeper.local.get("/api/v1/runs", job=name).json["runs"]
    return found


@pytest.mark.behaviour("TIM-12", "EXE-2")
def test_workers_come_with_the_first_job_that_is_put(keeper: Keeper) -> None:
    assert keeper.workers() == []
    body = {"run": {"shell": "cat"}, "schedule": {"once": True}, "payload": {"b": 2}}
    assert keeper.local.ask("PUT", "/api/v1/jobs/put", body).status == 200
    assert keeper.local.ask("PUT", "/api/v1/jobs/later", {"run": {"shell": "true"}}).status == 200
    wait_until(lambda: [one["state"] for one in runs(keeper, "put")] == ["succeeded"], "it has run")
    assert len(keeper.own_workers()) == 1
    # Files have nothing to say about what was put.
    assert keeper.reload("jobs") == NO_CHANGE
    for name in ("put", "later"):
        assert keeper.local.ask("DELETE", f"/api/v1/jobs/{name}").status == 200


@pytest.mark.behaviour("TIM-12", "TIM-14", "EXE-2")
def test_a_job_that_comes_with_a_reload_is_run(keeper: Keeper) -> None:
    keeper.declare("a", job("now", "schedule: {once: true}", "payload: {a: 1}", run="{shell: cat}"), job("by-hand"))
    assert keeper.reload("jobs") == NO_CHANGE | {"added": ["now", "by-hand"]}
    wait_until(lambda: [one["state"] for one in runs(keeper, "now")] == ["succeeded"], "it has run")
    (run,) = runs(keeper, "now")
    logged = keeper.local.get(f"/api/v1/runs/{run['id']}/logs").json["lines"]
    assert '{"a":1}' in [one["text"] for one in logged]
    assert known(keeper, "by-hand")["source"] == f"{keeper.declared}/a.yaml:9"
    # It has run once, and is not run again because the files are read again.
    assert keeper.reload("jobs") == NO_CHANGE | {"unchanged": ["now", "by-hand"]}
    assert len(runs(keeper, "now")) == 1


@pytest.mark.behaviour("TIM-14")
def test_a_job_that_has_not_changed_keeps_its_next_time(keeper: Keeper) -> None:
    same = job("same", "schedule: {every: 1h, wait: 30m}")
    keeper.declare("a", same, job("other", "schedule: {every: 1h, wait: 30m}"), job("out"))
    keeper.reload()
    before = {name: known(keeper, name) for name in ("same", "other")}
    keeper.declare("a", job("other", "schedule: {every: 2h, wait: 90m}"), job("new"))
    keeper.declare("b", same)
    keeper.send(signal.SIGHUP)
    line = "reloaded: added job new; changed job other; removed job out\n"
    wait_until(lambda: line in keeper.said, "it says what it did")
    assert known(keeper, "same")["next_at"] == before["same"]["next_at"]
    assert known(keeper, "same")["version"] == before["same"]["version"]
    assert seconds_of(known(keeper, "other")["next_at"]) > seconds_of(before["other"]["next_at"]) + 1800
    assert names(keeper) == ["other", "new", "same"]


@pytest.mark.behaviour("TIM-12", "TIM-14")
def test_a_fault_anywhere_leaves_everything_as_it_is(keeper: Keeper) -> None:
    keeper.declare("a", job("one", "schedule: {every: 1h, wait: 30m}"))
    keeper.reload()
    before = known(keeper, "one")
    keeper.declare("a", job("one", "schedule: {every: 2h}"), service("fresh"))
    path = keeper.declare("b", job("two", "schedule: {every: 5m, wait: 5m}"), job("one"))
    answer = keeper.local.post("/api/v1/reload")
    assert (answer.status, answer.code) == (422, "bad_config")
    first, second = answer.json["faults"]
    assert first.startswith(f"{path}:5: schedule.wait: '5m' is not")
    assert second == f"{path}:8: id: 'one' is declared twice, first at {keeper.declared}/a.yaml:3"
    assert known(keeper, "one") == before
    assert keeper.status("fresh") == "absent"
    # What only the scheduler can know is told in the same way, and leaves services alone too.
    keeper.declare("b", job("two", "schedule: {at: 2020-01-01}"))
    answer = keeper.local.post("/api/v1/reload")
    assert (answer.status, answer.code) == (422, "bad_config")
    assert answer.json["detail"].startswith(f"{path}:3: ")
    assert known(keeper, "one") == before
    assert keeper.status("fresh") == "absent"
    assert names(keeper) == ["one"]


def test_a_warning_is_in_the_log(keeper: Keeper) -> None:
    path = keeper.declare("a", job("odd", "schedule: {cron: 0 2 * * *, wait: 5s}"))
    assert keeper.reload("jobs")["added"] == ["odd"]
    assert f"{path}:5: schedule.wait: has no effect beside cron" in keeper.said


@pytest.mark.behaviour("TIM-12")
def test_a_job_that_is_put_may_not_have_the_name_of_one_in_a_file(keeper: Keeper) -> None:
    keeper.declare("a", job("mine"))
    keeper.reload()
    body = {"run": {"shell": "true"}}
    assert keeper.local.ask("PUT", "/api/v1/jobs/mine", body).status == 409
    assert keeper.local.ask("PUT", "/api/v1/jobs/theirs", body).status == 200
    keeper.declare("a", job("mine"), job("theirs"))
    answer = keeper.local.post("/api/v1/reload")
    assert (answer.status, answer.code) == (422, "bad_config")
    assert answer.json["detail"].startswith(f"{keeper.declared}/a.yaml:7: ")
    assert keeper.local.ask("DELETE", "/api/v1/jobs/theirs").status == 200
    assert keeper.reload("jobs") == NO_CHANGE | {"added": ["theirs"], "unchanged": ["mine"]}


@pytest.mark.behaviour("LAN-1", "LAN-2", "LAN-6")
def test_a_lane_comes_and_goes_with_the_files_and_stays_over_a_restart() -> None:
    reports, lane = (
        job("report", "lane: reports", run="{process: [sleep, '1000']}"),
        "kind: Lane\nid: reports\nlimit: {}\n",
    )

    def lanes(keeper: Keeper) -> dict[str, dict[str, Any]]:
        return {one.pop("id"): one for one in keeper.local.get("/api/v1/lanes").json["lanes"]}

    def holds(keeper: Keeper, **figures: int) -> bool:
        return lanes(keeper)["reports"].items() >= figures.items()

    with clean_folder() as place:
        keeper = Keeper(place, target=None)
        keeper.declare("a", lane.format(1), reports)
        with keeper:
            for _ in range(3):
                assert keeper.local.ask("POST", "/api/v1/jobs/report/trigger").status == 201
            wait_until(lambda: holds(keeper, limit=1, active=1, waiting=2), "one has the only slot")
            assert lanes(keeper)["reports"]["oldest_wait"] >= 0
            declared = {"limit": 30, "rate": None, "burst": 1}
            figures = {"active": 0, "waiting": 0, "oldest_wait": None, "status": "open", "declared": declared}
            assert lanes(keeper)["main"] == {**declared, **figures}
            keeper.kill()
            keeper.start()
            wait_until(lambda: holds(keeper, limit=1, waiting=2), "the others wait on")
            keeper.declare("a", lane.format(2), reports)
            keeper.reload()
            wait_until(lambda: holds(keeper, limit=2, active=2, waiting=1), "there is room for another")
            assert [one["lane"] for one in runs(keeper, "report")] == ["reports"] * 3
            keeper.declare("a", job("report"))
            keeper.reload()
            assert lanes(keeper).keys() == {"main", "subagent", "team", "cron"}
            assert [one["lane"] for one in runs(keeper, "report")] == ["main"] * 3
            keeper.declare("a", reports)
            assert keeper.local.post("/api/v1/reload").code == "bad_config"
            assert keeper.local.ask("POST", "/api/v1/runs/cancel", {"job": "report"}).status == 202
            wait_until(lambda: not any(one["active"] for one in lanes(keeper).values()), "nothing is left")
