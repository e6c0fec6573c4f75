"""Streams under `scan: before_success`: nobody sees a chunk that the scan would hold back."""

from pathlib import Path
from typing import Any

import pytest

import interlock as il
from tests.helpers.scanned import KEYWORD, client_of, record_of, scanning

S = il.State


@pytest.mark.behaviour("RUN-27", "OUT-2", "OUT-5", "OUT-7")
def test_chunks_come_after_the_scan_or_not_at_all(folder: Path) -> None:
    cases: list[tuple[list[Any], il.State, str, list[Any]]] = [
        (["fine", {"also": "fine"}], S.SUCCEEDED, "clean", ["fine", {"also": "fine"}]),
        ([f"about {KEYWORD}"], S.OUTPUT_QUARANTINED, "quarantined", []),
        ([{"delta": KEYWORD[:3]}, {"delta": KEYWORD[3:]}], S.OUTPUT_QUARANTINED, "quarantined", []),
        ([KEYWORD[:3], KEYWORD[3:]], S.OUTPUT_QUARANTINED, "quarantined", []),
        (["Ada", " streams"], S.SUCCEEDED, "redacted", ["[redacted:name]", " streams"]),
        (["A", "da"], S.OUTPUT_QUARANTINED, "quarantined", []),
    ]
    with scanning(folder, mode="closed", scan="before_success") as server, client_of(server) as client:
        held = client.submit("stream", {"chunks": ["held"], "folder": str(folder)})
        events = client.events(run=held.id, types=["chunk", "run"])
        assert next(event for _, event in events if isinstance(event, il.RunEvent) and event.state is S.RUNNING), (
            "it works, and has emitted"
        )
        with server.local.events(type="chunk", after="start") as stream:
            runs = [client.submit("stream", {"chunks": chunks}) for chunks, *_ in cases]
            assert [run.wait(60) for run in runs] == [state for _, state, *_ in cases]
            for run, (_, _, status, values) in zip(runs, cases, strict=True):
                assert record_of(client, run.id)["status"] == status
                assert [chunk.value for chunk in run.stream()] == values
            (folder / "held.go").touch()
            seen = stream.until(lambda event: event.data["chunks"] == ["held"])
        shown = [value for event in seen for value in event.data["chunks"]]
        assert shown == ["fine", {"also": "fine"}, "[redacted:name]", " streams", "held"]
        assert held.wait(30) is S.SUCCEEDED


@pytest.mark.behaviour("RUN-27", "OUT-2", "OUT-7")
def test_chunks_that_are_let_out_after_the_end_of_their_run(folder: Path) -> None:
    with scanning(folder, mode="closed", scan="before_success") as server, client_of(server) as client:
        failed = client.submit("stream", {"chunks": ["a", "b"], "fails": True})
        live = list(failed.stream())
        assert [chunk.value for chunk in live] == ["a", "b"], "it ends after the scan"
        assert failed.state() is S.FAILED
        assert list(failed.stream()) == live
        assert list(failed.stream(after=live[0].id)) == live[1:]
        assert list(failed.stream(after=live[1].id)) == []
        cancelled = client.submit("stream", {"chunks": ["a"], "folder": str(folder)})
        events = client.events(run=cancelled.id, types=["run"])
        assert next(event for _, event in events if isinstance(event, il.RunEvent) and event.state is S.RUNNING)
        cancelled.cancel("enough")
        assert [chunk.value for chunk in cancelled.stream()] == ["a"]
        assert cancelled.state() is S.CANCELLED
        withheld = client.submit("stream", {"chunks": ["about ", KEYWORD]})
        assert list(withheld.stream()) == []
        assert withheld.wait(30) is S.OUTPUT_QUARANTINED
        assert list(withheld.stream()) == []
        client.release_output(withheld.id, "reviewed")
        assert [chunk.value for chunk in withheld.stream()] == ["about ", KEYWORD]
