"""The live table of `interlock up`."""

import asyncio
import time
from collections.abc import Sequence

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from interlock.cli.format import COLOURS
from interlock.cli.tables import plain
from interlock.model.child_info import UP
from interlock.model.run import Run
from interlock.model.sockets import MEMORY
from interlock.model.state import TERMINAL, State
from interlock.wiring.scheduler import Scheduler

REFRESH = 0.25


async def show_live(scheduler: Scheduler, steps: Sequence[str]) -> None:
    """Redraw until cancelled; `steps` stand above, where a low terminal does not cut them off."""
    started = time.monotonic()
    before, at = 0, started
    rate = 0.0
    with Live(_view(scheduler, steps, 0.0, 0.0), auto_refresh=False, transient=False) as live:
        while True:
            await asyncio.sleep(REFRESH)
            done, now = sum(scheduler.engine.metrics.ended.values()), time.monotonic()
            rate = 0.7 * rate + 0.3 * (done - before) / (now - at) if rate else (done - before) / (now - at)
            before, at = done, now
            live.update(_view(scheduler, steps, rate, now - started), refresh=True)


def summary(scheduler: Scheduler) -> str:
    metrics = scheduler.engine.metrics
    ended = ", ".join(f"{count:,} {state}" for state, count in sorted(metrics.ended.items())) or "none ended"
    left = len(scheduler.engine.state.runs)
    fate = "lost with the database in memory" if scheduler.settings.database == MEMORY else "kept for the next start"
    return f"{metrics.submitted:,} submitted, {ended}, {left:,} {fate}"


def _view(scheduler: Scheduler, steps: Sequence[str], rate: float, uptime: float) -> Group:
    engine, workers = scheduler.engine, scheduler.workers
    restarts = sum(one.restarts for one in workers)
    head = Text.assemble(
        ("interlock ", "bold"),
        f"up {uptime:,.0f}s · {rate:,.0f} runs/s · {engine.metrics.submitted:,} submitted · "
        f"{engine.metrics.commits:,} commits · {len(engine.state.runs):,} live",
        f" · {_workers(sum(one.status in UP for one in workers))}",
        f" ({restarts} restarted)" if restarts else "",
        f" · {engine.state.stale_messages:,} stale messages" if engine.state.stale_messages else "",
        (" · store unavailable", "bold red") if not engine.available else "",
    )
    what_next = [Text(one if place == 0 else f"  {one}", style="dim") for place, one in enumerate(steps)]
    return Group(head, *what_next, _jobs(scheduler), _lanes(scheduler), _recent(engine.metrics.recent))


def _workers(count: int) -> str:
    return "1 worker" if count == 1 else f"{count:,} workers"


def _jobs(scheduler: Scheduler) -> Table:
    engine = scheduler.engine
    table = Table(title="jobs", title_justify="left", expand=False)
    table.add_column("job")
    for name in ("waiting", "running", "retrying", "succeeded", "failed", "other"):
        table.add_column(name, justify="right")
    live: dict[str, dict[str, int]] = {}
    for run in list(engine.state.runs.values())[:50_000]:
        kind = {State.RUNNING: "running", State.DISPATCHED: "running", State.RETRYING: "retrying"}.get(
            run.state, "waiting"
        )
        counts = live.setdefault(run.job_id, {})
        counts[kind] = counts.get(kind, 0) + 1
    for job_id in sorted(live.keys() | engine.metrics.by_job.keys()):
        now, ended = live.get(job_id, {}), engine.metrics.by_job.get(job_id, {})
        other = sum(count for state, count in ended.items() if state not in (State.SUCCEEDED, State.FAILED))
        cells = [now.get("waiting", 0), now.get("running", 0), now.get("retrying", 0)]
        cells += [ended.get(State.SUCCEEDED, 0), ended.get(State.FAILED, 0), other]
        table.add_row(job_id, *(f"{cell:,}" for cell in cells))
    return table


def _lanes(scheduler: Scheduler) -> Table:
    state = scheduler.engine.state
    table = Table(title="lanes and workers", title_justify="left", expand=False)
    for name in ("name", "active", "limit", "waiting"):
        table.add_column(name, justify="left" if name == "name" else "right")
    for lane in state.lanes.values():
        if lane.holding or lane.queues:
            table.add_row(f"lane {lane.name}", f"{len(lane.holding):,}", f"{lane.limit:,}", f"{lane.waiting():,}")
    for worker in state.workers.values():
        note = "" if worker.connected else " (away)"
        table.add_row(f"worker {worker.id}{note}", f"{len(worker.attempts):,}", f"{worker.slots:,}", "")
    return table


def _recent(runs: list[Run]) -> Table:
    table = Table(title="ended last", title_justify="left", expand=False)
    for name in ("run", "job", "state", "attempts", "took", "reason"):
        table.add_column(name, no_wrap=True)
    for run in reversed(runs):
        assert run.state in TERMINAL
        took = (
            ""
            if run.started_at is None or run.ended_at is None
            else f"{(run.ended_at - run.started_at) * 1000:,.0f} ms"
        )
        state = Text(run.state, style=COLOURS.get(run.state, ""))
        table.add_row(run.id, run.job_id, state, str(run.attempt), took, Text(plain(run.reason)[:60]))
    return table
