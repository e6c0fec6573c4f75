"""The live table of `interlock up`. It holds standard error back, and shows the last lines of it."""

import asyncio
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from heapq import heappop, heappush
from itertools import chain, islice
from typing import Any, NamedTuple

from rich.console import Console, Group, RenderableType
from rich.text import Text

from interlock.cli.draw import children
from interlock.cli.draw.format import COLOURS, ago, span
from interlock.cli.draw.tables import Column, columns_of, console, full_screen, plain, rich_table
from interlock.core.attempts.silence import Silence
from interlock.core.policy.judge_state import Judging
from interlock.core.routing.workers import state_of
from interlock.core.timetable.table import Table
from interlock.model.child_info import UP
from interlock.model.run import Run
from interlock.model.state import State
from interlock.model.worker_info import WorkerState
from interlock.wiring.scheduler import Scheduler
from interlock.wiring.service_tree import SERVICES

REFRESH = 0.25
MOST_HELD = 1000  # lines of standard error kept for the end
MOST_COUNTED = 50_000  # live runs counted by job
LEAST_HEIGHT = 20  # rows of a terminal with room for the commands to try
_KINDS = {State.RUNNING: "running", State.DISPATCHED: "running", State.RETRYING: "retrying"}
_COUNTS = ("waiting", "running", "retrying", "succeeded", "failed", "other")


class HeldErrors:
    """Standard error of this process and its children: passed on, or held back while the table is drawn."""

    def __init__(self) -> None:
        self.lines: deque[bytes] | None = None
        self._terminal = os.dup(2)
        reading, writing = os.pipe()
        os.dup2(writing, 2)
        os.close(writing)
        # In a thread: the event loop writes to this pipe, and must never wait for its own reading.
        self._thread = threading.Thread(target=self._read, args=(reading,), name="stderr", daemon=True)
        self._thread.start()

    def _read(self, reading: int) -> None:
        with open(reading, "rb") as pipe:
            for line in pipe:
                if (held := self.lines) is not None:
                    held.append(line)
                else:
                    os.write(self._terminal, line)

    @contextmanager
    def held(self) -> Iterator[None]:
        self.lines = deque(maxlen=MOST_HELD)
        try:
            yield
        finally:
            held, self.lines = self.lines, None
            os.write(self._terminal, b"".join(held or ()))

    def close(self) -> None:
        """Write directly to the terminal again."""
        os.dup2(self._terminal, 2)
        self._thread.join(1.0)


class Section(NamedTuple):
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    total: int | None = None  # number of all rows; None if further ones do not matter

    @property
    def wanted(self) -> int:
        return max(len(self.rows), self.total or 0)

    def fitted(self, share: int) -> Iterator[RenderableType]:
        is_cut = self.wanted > share and self.total is not None
        shown = self.rows[: share - is_cut]
        yield rich_table(self.columns, shown)
        if is_cut:
            yield Text(f"… and {self.wanted - len(shown):,} more", style="dim")


async def show_live(scheduler: Scheduler, steps: Sequence[str], errors: HeldErrors) -> None:
    """Redraw until cancelled; `steps` are commands to try."""
    screen = console()
    started = at = time.monotonic()
    before, rate = 0, 0.0
    with errors.held(), full_screen() as live:
        while True:
            done, now = sum(scheduler.engine.metrics.ended.values()), time.monotonic()
            if now > at:
                latest = (done - before) / (now - at)
                rate = 0.7 * rate + 0.3 * latest if rate else latest
            before, at = done, now
            lines = [plain(line.decode(errors="replace")) for line in errors.lines or ()]
            head = _head(scheduler, rate, now - started)
            live.update(_view(screen, head, steps, _sections(scheduler, screen.height), lines), refresh=True)
            await asyncio.sleep(REFRESH)


def summary(scheduler: Scheduler) -> str:
    metrics = scheduler.engine.metrics
    ended = ", ".join(f"{count:,} {state}" for state, count in sorted(metrics.ended.items())) or "none ended"
    left = len(scheduler.engine.state.runs)
    fate = "lost with the database in memory" if scheduler.store.is_private else "kept for the next start"
    return f"{metrics.submitted:,} submitted, {ended}, {left:,} {fate}"


def _view(
    screen: Console, head: Text, steps: Sequence[str], sections: Sequence[Section], lines: Sequence[str]
) -> RenderableType:
    """Draw as much as the screen has room for: each section gets the same share, and leaves what it does not need to
    the others."""
    top = [head]
    if screen.height >= LEAST_HEIGHT:
        top += [Text(("  " if place else "") + one, "dim", overflow="fold") for place, one in enumerate(steps)]
    wanted = [section.wanted for section in sections] + [len(lines)] * bool(lines)
    room = screen.height - len(screen.render_lines(Group(*top))) - len(wanted)
    gap = room - len(wanted) >= sum(wanted)
    shares = _shares(wanted, room - gap * len(wanted))
    parts: list[RenderableType] = list(top)
    for section, share in zip(sections, shares, strict=False):
        parts += [Text()] * gap + list(section.fitted(share))
    if lines:
        parts += [Text()] * gap + [Text("log", "bold")]
        parts += [Text(line, no_wrap=True, overflow="ellipsis") for line in lines[-shares[-1] :] if shares[-1]]
    return Group(*parts)


def _shares(wanted: Sequence[int], room: int) -> list[int]:
    shares = [0] * len(wanted)
    while room > 0 and (hungry := [place for place, most in enumerate(wanted) if shares[place] < most]):
        for place in hungry[:room]:
            shares[place] += 1
        room -= len(hungry)
    return shares


def _head(scheduler: Scheduler, rate: float, uptime: float) -> Text:
    engine, workers = scheduler.engine, scheduler.workers
    count, restarts = sum(worker.status in UP for worker in workers), sum(worker.restarts for worker in workers)
    return Text.assemble(
        ("interlock ", "bold"),
        f"up {span(uptime)} · {rate:,.0f} ended/s · {engine.metrics.submitted:,} submitted · ",
        f"{len(engine.state.runs):,} live · {count:,} worker{'s' * (count != 1)}",
        f" ({restarts} restarted)" if restarts else "",
        (f" · {len(engine.state.of(Judging).awaiting_approval):,} to approve", "yellow")
        if engine.state.of(Judging).awaiting_approval
        else "",
        (" · store unavailable", "bold red") if not engine.present.available else "",
        f" · {engine.metrics.commits:,} commits",
        f" · {engine.state.of(Silence).stale_messages:,} stale messages"
        if engine.state.of(Silence).stale_messages
        else "",
        no_wrap=True,
        overflow="ellipsis",
    )


def _sections(scheduler: Scheduler, most: int) -> list[Section]:
    """Return the sections that have rows, each with at most `most` of them."""
    now = time.time()
    columns, rows = children.table_of(scheduler.tree.child(SERVICES).children, now, "service")
    recent = _recent(scheduler.engine.metrics.recent)
    found = (Section(columns, rows, len(rows)), _jobs(scheduler, most, now), _lanes(scheduler), recent)
    return [section for section in found if section.rows]


def _jobs(scheduler: Scheduler, most: int, now: float) -> Section:
    """Return jobs with live runs first, then scheduled ones by next fire time, then those that ran before."""
    state, ended = scheduler.engine.state, scheduler.engine.metrics.by_job
    live: dict[str, Counter[str]] = {}
    for run in islice(state.runs.values(), MOST_COUNTED):
        live.setdefault(run.job_id, Counter())[_KINDS.get(run.state, "waiting")] += 1
    next_at = dict(islice(_soonest(state.timetable), most))
    rows = []
    for job_id in islice(dict.fromkeys(chain(sorted(live), next_at, sorted(ended))), most):
        counts = live.get(job_id, Counter())
        for name, count in ended.get(job_id, {}).items():
            counts[name if name in _COUNTS else "other"] += count
        entry = state.timetable.entries.get(job_id)
        at = next_at.get(job_id)
        due = "" if entry is None else "paused" if entry.paused else "" if at is None else ago(at, now)
        rows.append([job_id, *(f"{counts[name]:,}" if counts[name] else "" for name in _COUNTS), due])
    columns = [Column("job"), *(Column(name, right=True) for name in _COUNTS), Column("next", right=True)]
    kept = [place for place in range(len(columns)) if any(row[place] for row in rows)]
    total = len(live.keys() | ended.keys() | state.timetable.entries.keys())
    return Section([columns[place] for place in kept], [[row[place] for place in kept] for row in rows], total)


def _soonest(table: Table) -> Iterator[tuple[str, float | None]]:
    """Yield scheduled jobs by next fire time, paused ones last. Look only at those that the caller takes."""
    ahead = {job_id: [run.due_at for run in runs if run.due_at is not None] for job_id, runs in table.ahead.items()}
    yield from sorted(((job_id, min(times)) for job_id, times in ahead.items() if times), key=lambda one: one[1])
    frontier = [(item, 0) for item in table.heap[:1]]
    while frontier:
        item, place = heappop(frontier)
        if item[2] not in ahead and table.fits(item) is not None:
            yield item[2], item[0]
        for below in (2 * place + 1, 2 * place + 2):
            if below < len(table.heap):
                heappush(frontier, (table.heap[below], below))
    yield from ((entry.job.id, None) for entry in table.entries.values() if entry.paused)


def _lanes(scheduler: Scheduler) -> Section:
    state = scheduler.engine.state
    rows = [
        [f"lane {lane.name}", f"{len(lane.holding):,}", f"{lane.limit:,}", f"{lane.waiting:,}"]
        for lane in state.lanes.values()
        if lane.holding or lane.waiting
    ]
    for worker in state.workers.values():
        now = state_of(state, worker)
        note = "" if now in (WorkerState.READY, WorkerState.FULL) else f" ({now})"
        rows.append([f"worker {worker.id}{note}", f"{len(worker.attempts):,}", f"{worker.slots:,}", ""])
    return Section(columns_of("lane or worker, >active, >limit, >waiting"), rows, len(rows))


def _recent(runs: Sequence[Run]) -> Section:
    columns = columns_of("ended last, job, state, >attempts, >took, ~reason")
    rows = []
    for run in reversed(runs):
        took = "" if run.started_at is None or run.ended_at is None else span(run.ended_at - run.started_at)
        state = Text(run.state, style=COLOURS.get(run.state, ""))
        rows.append([run.id, run.job_id, state, str(run.attempt), took, Text(plain(run.reason))])
    return Section(columns, rows)
