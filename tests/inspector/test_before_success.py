"""`scan: before_success` with real processes: whatever is read, and whoever is killed, nothing comes out unscanned."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

import interlock as il
from interlock.model.facets import ProgressInfo
from tests.helpers.http import ends
from tests.helpers.processes import wait_until
from tests.helpers.scanned import KEYWORD, client_of, inspectors, record_of, scanning

S = il.State


@pytest.mark.behaviour("OUT-2", "OUT-5", "OUT-7", "RUN-20")
def test_nobody_sees_what_a_scanner_holds_back(folder: Path) -> None:
    cases: list[tuple[str, Any, il.State, str, list[str]]] = [
        ("fine", "fine", S.SUCCEEDED, "clean", ["fine"]),
        (f"about {KEYWORD}", "fine", S.OUTPUT_QUARANTINED, "quarantined", []),
        ("fine", KEYWORD, S.OUTPUT_QUARANTINED, "quarantined", []),
        ("Ada logs", ["Grace"], S.SUCCEEDED, "redacted", ["[redacted:name] logs"]),
        ("hang", "fine", S.OUTPUT_QUARANTINED, "quarantined", []),
    ]
    with scanning(folder, mode="closed", timeout="1s", scan="before_success") as server, client_of(server) as client:
        http = server.local
        with http.events() as stream:
            runs = [client.submit("mutter", {"line": line, "value": value}) for line, value, *_ in cases]
            # The scheduler and the scanners die with results that wait for their scan.
            for inspector in inspectors(folder):
                os.kill(inspector, signal.SIGKILL)
            server.kill()
            server.start()
            ended = [run.wait(60) for run in runs]
        assert ended == [state for _, _, state, *_ in cases]
        with http.events(after="start") as stream:
            told = stream.until(ends([run.id for run in runs]))
        for run, (_, value, state, status, lines) in zip(runs, cases, strict=True):
            found = client.get(run.id)
            assert (record_of(client, run.id)["status"], found.progress) == (status, ProgressInfo(50.0, ""))
            assert [line.text for line in client.logs(run.id)] == lines
            of_run = [one for one in told if one.data["run_id"] == run.id]
            assert [one.data["text"] for one in of_run if one.name == "log"] == lines
            assert of_run[-1].data["state"] == state, "the log comes before the end"
            assert found.result == {"clean": value, "redacted": ["[redacted:name]"]}.get(status)
        client.release_output(runs[1].id, "a test")
        assert (client.get(runs[1].id).result, client.logs(runs[1].id)[0].text) == ("fine", f"about {KEYWORD}")


@pytest.mark.behaviour("OUT-2", "OUT-7")
def test_a_run_waits_while_the_scanners_are_away(folder: Path) -> None:
    with scanning(folder, scan="before_success") as server, client_of(server) as client:
        wait_until(lambda: inspectors(folder), "the inspector has started")
        (inspector,) = inspectors(folder)
        os.kill(inspector, signal.SIGSTOP)
        run = client.submit("mutter", {"line": "Ada", "value": "Grace"})
        wait_until(lambda: client.get(run.id).state is S.TERMINATING, "it waits for its scan")
        found = client.get(run.id)
        assert (found.result, client.logs(run.id), record_of(client, run.id)["status"]) == (None, [], "pending")
        assert "scan" in client.explain(run.id).sentence
        os.kill(inspector, signal.SIGKILL)
        assert (run.wait(60), run.result(1)) == (S.SUCCEEDED, "[redacted:name]")
