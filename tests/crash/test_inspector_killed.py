"""Scans of results while the scheduler or the inspector is killed: nothing is left out, and nothing comes twice."""

import os
import signal
from pathlib import Path

import pytest

from interlock.client.http.client import Client
from interlock.model.state import State
from tests.helpers.processes import wait_until
from tests.helpers.scanned import KEYWORD, client_of, in_state, inspectors, say, scanning

COUNT = 60


def submit(client: Client) -> list[str]:
    """Every second result has something to find."""
    runs = [say(client, f"{KEYWORD if place % 2 else 'fine'} {place}") for place in range(COUNT)]
    for run in runs:
        run.wait(30)
    return [run.id for run in runs]


def check(client: Client, run_ids: list[str]) -> None:
    for run_id in run_ids[1::2]:
        in_state(client, run_id, State.OUTPUT_QUARANTINED)
    ended = [
        [one.after for one in client.history(run_id) if one.after in ("succeeded", "output_quarantined")]
        for run_id in run_ids
    ]
    assert ended[1::2] == [["succeeded", "output_quarantined"]] * (COUNT // 2)
    assert ended[0::2] == [["succeeded"]] * (COUNT // 2)
    audited = [one.subject for one in client.audit(kind="quarantined")]
    assert sorted(audited) == sorted(run_ids[1::2])


@pytest.mark.behaviour("OUT-3")
def test_the_scheduler_is_killed_while_results_wait(folder: Path) -> None:
    (folder / "broken").touch()  # so that nothing is scanned before the kill
    with scanning(folder) as server:
        with client_of(server) as client:
            run_ids = submit(client)
            wait_until(lambda: "scanners: could not be started" in server.said, "scans were tried")
        for _ in range(2):
            server.kill()
            (folder / "broken").unlink(missing_ok=True)
            server.start()
        with client_of(server) as client:
            check(client, run_ids)
        server.wait_for_strays()


@pytest.mark.behaviour("OUT-3")
def test_the_inspector_is_killed(folder: Path) -> None:
    with scanning(folder) as server, client_of(server) as client:
        wait_until(lambda: inspectors(folder), "the inspector is up")
        [first] = inspectors(folder)
        os.kill(first, signal.SIGSTOP)  # so that all results are left to the next one
        run_ids = submit(client)
        os.kill(first, signal.SIGKILL)
        check(client, run_ids)
        assert first not in inspectors(folder)
