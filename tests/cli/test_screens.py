"""What screens show first, and what they leave out."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console
from rich.text import Text

import interlock as il
from interlock.cli.draw.listing import Listing
from interlock.cli.draw.picture import Picture, drawing, scrolling
from interlock.cli.look.explain import drawing as explain_drawing
from interlock.cli.look.workers import WORKERS
from interlock.cli.main import COMMANDS
from interlock.cli.run.live import hints
from interlock.cli.shared.short_ids import APART, NEWEST, short_ids
from interlock.interface.run_view import HistoryEntry
from interlock.model.explanation import End, Explanation, Reason, ReasonKind
from interlock.model.pool import WorkerInfo, WorkerState
from interlock.model.state import State
from tests.cli.terminal import Terminal
from tests.client.faulty import DETAIL
from tests.helpers.judged import ASKS, write_policy

NOW = 1_800_000_000.0


def drawn(value: Any, width: int = 80) -> list[str]:
    console = Console(width=width)
    with console.capture() as captured:
        console.print(value)
    return [line.rstrip() for line in captured.get().splitlines()]


# ── ids ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def made(at: float, number: int = 0) -> str:
    return f"{int(at * 1000):012x}{number:04x}{int(at * 7919):012x}"


def test_a_short_id_names_no_other_run_and_no_later_one() -> None:
    ids = [made(NOW - 60.0), made(NOW - 5.0), made(NOW - 5.0, 1), made(NOW - 0.002), "disk.check:1795009648"]
    short = short_ids(ids, ids, NOW)
    assert short["disk.check:1795009648"] == "disk.check:1795009648"
    later = [made(NOW + number * 0.7) for number in range(1000)]
    for run_id in ids:
        assert [other for other in ids + later if other.startswith(short[run_id])] == [run_id]
        beginning = short[run_id][:-1]
        assert [other for other in [*ids, made(NOW)] if other.startswith(beginning)] != [run_id] or ":" in run_id
    assert [len(short[run_id]) for run_id in ids[1:3]] == [16, 16], "made in the same millisecond"


def test_a_short_id_of_an_old_run_is_unique_without_looking() -> None:
    newest = [made(NOW - number) for number in range(NEWEST)]
    old = made(NOW - 5000.0)
    short = short_ids([old, newest[3]], newest, NOW)
    assert (short[old], len(short[newest[3]]) < APART) == (old[:APART], True)


# ── up ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_hints_leave_after_thirty_seconds_unless_there_is_nothing_to_run() -> None:
    steps = ["try", "interlock runs"]
    assert (hints(False, steps, 29.9), hints(False, steps, 30.0)) == (steps, ())
    for uptime in (0.0, 31.0):
        said = "\n".join(hints(True, steps, uptime))
        assert all(word in said for word in ("nothing to run", "interlock init", "-A MODULE:APP"))


def test_with_nothing_to_run_it_says_how_to_begin(folder: Path) -> None:
    with Terminal(folder, "up", "--http", "local", size=(80, 24)) as server:
        server.wait_for_screen("nothing to run yet", "interlock init", "up -A MODULE:APP")
        server.enter("\x03")
        assert server.ended() == 0


def test_jobs_that_need_a_person_come_first(folder: Path) -> None:
    app = ("-A", "tests.helpers.jobs:app", write_policy(folder), "--http", "local", "--drain", "0s")
    with Terminal(folder, "up", *app, size=(80, 24)) as server:
        server.wait_for_screen("worker w1-")
        with il.Client(f"unix:{folder / 'interlock.db.http'}") as client:
            client.submit("echo", {"value": 1}, delay="1h")
            for _ in range(3):
                client.submit(ASKS)
            screen = server.wait_for_screen("3 to approve", "echo")
        assert "…" not in screen[0]
        jobs = screen[next(place for place, line in enumerate(screen) if line.startswith("job ")) + 1 :]
        assert [line.split()[:2] for line in jobs[:2]] == [[ASKS, "3"], ["echo", "1"]]
        server.enter("\x03")
        server.ended()


# ── show and explain ────────────────────────────────────────────────────────────────────────────────────────────────


def history(*states: State) -> list[HistoryEntry]:
    return [
        HistoryEntry(
            id=f"u{place}", seq=place, before=None, after=state, at=NOW + place, attempt=1, reason="", actor="scheduler"
        )
        for place, state in enumerate(states, start=1)
    ]


@pytest.mark.parametrize(("end", "is_shown"), [(State.SUCCEEDED, False), (State.FAILED, True)])
def test_the_end_of_the_process_of_a_success_is_noise(end: State, is_shown: bool) -> None:
    run = msgspec.structs.replace(DETAIL, state=end)
    found = drawn(drawing(Picture(run, history(State.RUNNING, State.TERMINATING, end), [], [])))
    assert any(line.startswith("terminating") for line in found) is is_shown


def test_a_run_that_scrolls_away_is_named_again_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    run = msgspec.structs.replace(DETAIL, state=State.FAILED, error="Traceback\n" + "line\n" * 30 + "it broke")
    assert drawn(scrolling(Picture(run, [], [], [])))[-2:] == ["", f"{run.id}  {run.job_id}  failed"]
    short = msgspec.structs.replace(run, error="it broke")
    assert drawn(scrolling(Picture(short, [], [], [])))[-1] == "it broke"


def test_below_its_sentence_an_explanation_says_only_what_is_new() -> None:
    reasons = [
        Reason(kind=ReasonKind.ENDED, text="failed in its only attempt: it broke", name="worker", at=NOW - 60),
        Reason(kind=ReasonKind.RETRIED, text="was run again as r2", runs=["r2"]),
    ]
    end = End(
        at=NOW - 60, reason="it broke", actor="worker", outcome="failed", error="it broke", exit_code=3, attempts=1,
        failures=1, crashes=0,
    )  # fmt: skip
    sentence = "The run failed in its only attempt: it broke; it was run again as r2."
    found = Explanation(run_id="r1", state=State.FAILED, sentence=sentence, reasons=reasons, end=end)
    head, said, empty, *below = drawn(explain_drawing(found, NOW))
    assert (head, said, empty) == ("r1  failed", sentence, "")
    assert [line.split()[0] for line in below] == ["ended", "exit_code"]
    assert re.search(r"ended +worker, at .* \(1m ago\)", below[0])
    bare = msgspec.structs.replace(found, reasons=reasons[1:], end=None)
    assert drawn(explain_drawing(bare, NOW)) == [head, sentence]


# ── lists ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_worker_on_another_machine_says_so() -> None:
    worker = WorkerInfo(
        id="berlin:w1-7-2f56dfec.1", pool="default", region=None, state=WorkerState.READY, drained=False, active=0,
        slots=64, processes=2, cpu=0.0, memory=0.0, gpu=0.0, heard_ago=1.0, skew=0.0, jobs=1, capabilities=[],
        labels={}, tenants=None,
    )  # fmt: skip
    own = msgspec.structs.replace(worker, id="w2-8-2f56dfec.2")
    title, first, second = drawn(WORKERS.table([worker, own]))
    assert title.split() == ["worker", "pool", "connected", "state", "runs", "heard"]
    assert ("remote, token berlin" in first, "remote" in second) == (True, False)
    away = msgspec.structs.replace(worker, state=WorkerState.AWAY)
    assert "connected" not in drawn(WORKERS.table([away]))[0]


def test_every_empty_list_is_a_sentence() -> None:
    names = [f"look.{name}" for name, panel in COMMANDS.items() if panel == "Look"]
    modules = [import_module(f"interlock.cli.{name}") for name in [*names, "act.letters", "check.policy_diff"]]
    found = {id(value): value for module in modules for value in vars(module).values() if isinstance(value, Listing)}
    assert len(found) >= 10
    for listing in found.values():
        if listing.name != "children":  # the server itself is one
            assert isinstance(listing.table([]), Text)
            assert len(listing.empty.split()) >= 3, listing.name
