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
from interlock.cli.draw.format import COLOURS, ago, counted, span
from interlock.cli.draw.listing import COUNT, LENGTH, NUMBER, Column, Listing
from interlock.cli.draw.tables import console, full_screen, plain
from interlock.cli.run.next_steps import how_to_begin
from interlock.cli.shared.short_ids import short_id
from interlock.core.attempts.silence import Silence
from interlock.core.policy.judge_state import Judging
from interlock.core.routing.workers import state_of
from interlock.core.timetable.table import Table
from interlock.model.child_info import UP
from interlock.model.pool import WorkerState
from interlock.model.run import Run
from interlock.model.state import ON_WORKER, State
from interlock.wiring.scheduler import Scheduler
from interlock.wiring.service_tree import SERVICES

REFRESH = 0.25
MOST_HELD = 1000  # lines of standard error kept for the end
MOST_COUNTED = 50_000  # live runs counted by job
LEAST_HEIGHT = 20  # rows of a terminal with room for the commands to try
HINTS = 30.0  # seconds for which it shows them
_KINDS = {
    State.APPROVAL_REQUIRED: "to approve",
    **dict.fromkeys(ON_WORKER, "running"),
    State.RETRYING: "retrying",
}
_COUNTS = ("to approve", "waiting", "running", "retrying", "succeeded", "failed", "other")


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


class JobLine(NamedTuple):
    job: str
    counts: Counter[str]  # its runs, by kind
    next: str


class SlotLine(NamedTuple):
    """A lane or a worker."""

    name: str
    active: int
    limit: int
    waiting: int = 0


def _counted(kind: str) -> Column:
    return Column(kind, lambda line: line.counts[kind], COUNT)


SERVICE_LINES = children.listing("service")
JOB_LINES = Listing[JobLine](
    "jobs",
    "",
    Column("job"),
    *map(_counted, _COUNTS),
    Column("next"),
)
SLOT_LINES = Listing[SlotLine](
    "slots",
    "",
    Column("lane or worker", "name"),
    Column("active", form=NUMBER),
    Column("limit", form=NUMBER),
    Column("waiting", form=COUNT),
)
ENDED_LINES = Listing[Run](
    "runs",
    "",
    Column("ended last", lambda run: short_id(run.id)),
    Column("job", "job_id"),
    Column("state", colours=COLOURS),
    Column("attempts", "attempt", COUNT),
    Column("took", lambda run: run.ended_at - run.started_at if run.started_at and run.ended_at else None, LENGTH),
    Column("reason", gives_way=True),
)


class Section(NamedTuple):
    listing: Listing[Any]
    items: Sequence[Any]
    total: int | None = None  # number of all items; None if further ones do not matter

    @property
    def wanted(self) -> int:
        return max(len(self.items), self.total or 0)

    def fitted(self, share: int) -> Iterator[RenderableType]:
        is_cut = self.wanted > share and self.total is not None
        shown = self.items[: share - is_cut]
        yield self.listing.table(shown)
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
            head = _head(scheduler, rate, now - started, screen.width)
            top = hints(scheduler.is_empty, steps, now - started)
            live.update(_view(screen, head, top, _sections(scheduler, screen.height), lines), refresh=True)
            await asyncio.sleep(REFRESH)


def hints(is_empty: bool, steps: Sequence[str], uptime: float) -> Sequence[str]:
    """Return the lines below the first one: commands to try for a while, or how to begin while nothing is to run."""
    return how_to_begin() if is_empty else steps if uptime < HINTS else ()


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


def _head(scheduler: Scheduler, rate: float, uptime: float, width: int) -> Text:
    """Return the first line: as many figures as it has room for, those first that need a person."""
    engine, workers = scheduler.engine, scheduler.workers
    count, restarts = sum(worker.status in UP for worker in workers), sum(worker.restarts for worker in workers)
    waiting, stale = len(engine.state.of(Judging).awaiting_approval), engine.state.of(Silence).stale_messages
    figures = [
        ("store unavailable", "bold red", not engine.present.available),
        (f"{waiting:,} to approve", "yellow", waiting),
        (f"{len(engine.state.runs):,} live", "", True),
        (counted(count, "worker") + (f" ({restarts} restarted)" if restarts else ""), "", True),
        (f"{rate:,.0f} ended/s", "", True),
        (f"{engine.metrics.submitted:,} submitted", "", True),
        (f"{engine.metrics.commits:,} commits", "", True),
        (f"{stale:,} stale messages", "", stale),
    ]
    head = Text.assemble(("interlock ", "bold"), f"up {span(uptime)}", no_wrap=True, overflow="ellipsis")
    for text, style, is_shown in figures:
        if is_shown and len(head) + 3 + len(text) <= width:
            head.append(" · ").append(text, style)
    return head


def _sections(scheduler: Scheduler, most: int) -> list[Section]:
    """Return the sections that have rows, each with at most `most` of them."""
    now = time.time()
    services = scheduler.tree.child(SERVICES).children
    recent = Section(ENDED_LINES, scheduler.engine.metrics.recent[::-1])
    found = (Section(SERVICE_LINES, services, len(services)), _jobs(scheduler, most, now), _slots(scheduler), recent)
    return [section for section in found if section.items]


def _jobs(scheduler: Scheduler, most: int, now: float) -> Section:
    """Return jobs that need a person first, then those with live runs, then scheduled ones by next fire time, then
    those that ran before."""
    state, ended = scheduler.engine.state, scheduler.engine.metrics.by_job
    live: dict[str, Counter[str]] = {}
    for run in islice(state.runs.values(), MOST_COUNTED):
        live.setdefault(run.job_id, Counter())[_KINDS.get(run.state, "waiting")] += 1
    next_at = dict(islice(_soonest(state.timetable), most))
    lines = []
    first = sorted(live, key=lambda job_id: (not live[job_id]["to approve"], job_id))
    for job_id in islice(dict.fromkeys(chain(first, next_at, sorted(ended))), most):
        counts = live.get(job_id, Counter())
        for name, count in ended.get(job_id, {}).items():
            counts[name if name in _COUNTS else "other"] += count
        entry = state.timetable.entries.get(job_id)
        at = next_at.get(job_id)
        due = "" if entry is None else "paused" if entry.paused else "" if at is None else ago(at, now)
        lines.append(JobLine(job_id, counts, due))
    return Section(JOB_LINES, lines, len(live.keys() | ended.keys() | state.timetable.entries.keys()))


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


def _slots(scheduler: Scheduler) -> Section:
    state = scheduler.engine.state
    lines = [
        SlotLine(f"lane {lane.name}", len(lane.holding), lane.limit, lane.waiting)
        for lane in state.lanes.values()
        if lane.holding or lane.waiting
    ]
    for worker in state.workers.values():
        now = state_of(state, worker)
        note = "" if now in (WorkerState.READY, WorkerState.FULL) else f" ({now})"
        lines.append(SlotLine(f"worker {worker.id}{note}", len(worker.attempts), worker.slots))
    return Section(SLOT_LINES, lines, len(lines))
