"""kill -9 of the scheduler during a bulk retry: no run is retried twice, and none is left out."""

import signal
from collections import Counter
from pathlib import Path

import pytest

import interlock as il
from tests.helpers.invariants import check_database
from tests.helpers.server import Server

RUNS = 1_000
CRASHES = 4
"""starts that die in their first, second … commit: together fewer commits than the request has pages"""


@pytest.mark.behaviour("RUN-23", "RUN-25")
@pytest.mark.parametrize("moment", ["before", "after"])
def test_at_every_commit_of_a_bulk_retry(folder: Path, moment: str) -> None:
    server = Server(folder, "--workers", "0", "--http", "local")
    with il.Client(f"unix:{server.http_socket}") as client:
        try:
            server.start()
            old = [one.id for one in client.submit_many([("echo", {"value": place}) for place in range(RUNS)])]
            *_, cancelled = client.bulk_progress(client.act_on_many("cancel", everything=True).id)
            assert cancelled.done == RUNS
            request = client.act_on_many("retry", everything=True)
            server.kill()
            assert request.ended_at is None
            for number in range(1, CRASHES + 1):
                server.begin("tests.helpers.crashing", str(server.database), moment, str(number))
                assert server.ended() == -signal.SIGKILL, server.said
            server.start()
            *_, retried = client.bulk_progress(request.id)
            new = {one.id: one.facets["retry_of"]["run_id"] for one in client.runs(live=True)}
            named = {one.id: one.facets["retried_as"]["run_id"] for one in client.runs(live=False)}
            assert server.stop() == 0
        finally:
            server.kill()
    assert retried.done == RUNS
    assert Counter(new.values()) == dict.fromkeys(old, 1)
    assert {after: before for before, after in named.items()} == new
    check_database(server.database, old)
