"""Keys and occurrences whose runs were pruned: the same id again, and a plain word that the run is gone."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.conftest import guard, sound
from tests.api.tokens import TOKENS, as_
from tests.helpers.http import Http
from tests.helpers.places import clean_folder
from tests.helpers.processes import wait_until
from tests.helpers.server import Server

RUNS = "/api/v1/runs"
AT = 1_700_000_000.0
KEYED: dict[str, Any] = {"job": "echo", "payload": {"value": 1}, "idempotency_key": "k", "tenant": "red"}
AT_AN_INSTANT: dict[str, Any] = {"job": "echo", "payload": {"value": 1}, "occurrence": AT, "tenant": "red"}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Whatever has ended is pruned when it starts."""
    with clean_folder() as place:
        guard(place)
        with (place / "interlock.yaml").open("a") as file:
            file.write("keep_runs: 1\n")
        server = Server(place, "--drain", "1s", "--http", "127.0.0.1:0", "--heartbeat", "20s")
        server.extra = {"BOSS_TOKEN": TOKENS["boss"].text}
        with sound(server) as running:
            yield running


@pytest.fixture(scope="module")
def pruned(server: Server) -> tuple[str, str]:
    """The run of a key, and that of an occurrence."""
    http = as_(server, "boss")
    keyed, occurrence = (http.post(RUNS, body).json["id"] for body in (KEYED, AT_AN_INSTANT))
    plain = [http.submit("echo", {"value": 1}) for _ in range(3)]
    for run_id in (keyed, occurrence, *plain):
        http.ended(run_id)
    server.stop()
    server.start()
    wait_until(lambda: len(as_(server, "boss").get(RUNS).json["runs"]) == 1, "all runs but the newest are pruned")
    gone = as_(server, "boss").get(f"{RUNS}/{plain[0]}")
    assert (gone.status, gone.code) == (404, "unknown_run"), "nothing is known of a run without a key"
    return keyed, occurrence


@pytest.mark.behaviour("RUN-6", "RUN-5")
def test_a_submit_that_is_repeated_after_its_run_was_pruned_creates_nothing(
    server: Server, pruned: tuple[str, str]
) -> None:
    http = as_(server, "boss")
    for body, run_id in zip((KEYED, AT_AN_INSTANT), pruned, strict=True):
        for wait in ("0s", "5s"):
            again = http.post(RUNS, body, wait=wait)
            assert (again.status, again.code) == (410, "run_pruned")
            assert run_id in again.json["detail"]
        other = http.post(RUNS, body | {"payload": {"value": 2}})
        assert (other.status, other.code) == (409, "idempotency_conflict")
    assert len(http.get(RUNS).json["runs"]) == 1


@pytest.mark.behaviour("RUN-6")
@pytest.mark.parametrize("path", ["", "/history", "/logs", "/cancel"])
def test_whoever_asks_for_a_pruned_run_is_told_so_unless_it_was_of_another_tenant(
    server: Server, pruned: tuple[str, str], path: str
) -> None:
    def ask(http: Http, run_id: str) -> tuple[int, str]:
        answer = (http.post if path == "/cancel" else http.get)(f"{RUNS}/{run_id}{path}")
        assert answer.status == 404 or "keep_runs" in answer.json["detail"]
        return answer.status, answer.code

    for run_id in pruned:
        assert ask(as_(server, "boss"), run_id) == ask(as_(server, "clerk"), run_id) == (410, "run_pruned")
        assert ask(as_(server, "stranger"), run_id) == (404, "unknown_run")
