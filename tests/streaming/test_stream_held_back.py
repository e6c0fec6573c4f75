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
