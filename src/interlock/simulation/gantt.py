"""A forecast as a picture: a row a job, time from left to right, in one SVG file that needs nothing else."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, tzinfo
from html import escape
from itertools import groupby

import msgspec

from interlock.simulation.axis import Tick, day_text, ticks
from interlock.simulation.forecast_model import Forecast, JobForecast, RunForecast

WIDTH = 1200
ROW = 24
TOP = 84
"""above the first row: title, figures, axis"""
BOTTOM = 44
CHARACTER = 6.7
LONGEST_NAME = 34
MOST_ROWS = 500
MOST_TRACKS = 4
MOST_ALONE = 150
"""bars of a row that each say what they are; more of them become one shape"""
NARROWEST = 1.5
"""pixels: whatever happens can be seen"""
LOWEST = 0.2
"""of the height of a row"""
GAP = 1.0
"""pixels: what is closer together is one bar"""

LIGHT = {
    "text": "#1f2328", ".dim": "#57606a", ".paper": "#ffffff", ".stripe": "#f6f8fa", ".line": "#d8dee4",
    ".day": "#8c959f", ".run": "#1f6feb", ".many": "#80b3ff", ".wait": "#e3b341", ".missed": "#cf222e",
    ".bad": "#8250df",
}  # fmt: skip
DARK = {
    "text": "#e6edf3", ".dim": "#9198a1", ".paper": "#0d1117", ".stripe": "#161b22", ".line": "#30363d",
    ".day": "#6e7681", ".run": "#4493f8", ".many": "#2a5a9e", ".wait": "#d29922", ".missed": "#f85149",
    ".bad": "#ab7df8",
}  # fmt: skip
LAYOUT = (
    "text{font:12px sans-serif}.title{font-size:16px;font-weight:bold}"
    ".end{text-anchor:end}.middle{text-anchor:middle}.line,.day{fill:none}"
)


def _style() -> str:
    """Colours by their values, for not every program that shows pictures knows variables."""
    light, dark = ("".join(_rule(*one) for one in colours.items()) for colours in (LIGHT, DARK))
    return f"<style>{LAYOUT}{light}@media (prefers-color-scheme:dark){{{dark}}}</style>"


def _rule(name: str, colour: str) -> str:
    return f"{name}{{{'stroke' if name in ('.line', '.day') else 'fill'}:{colour}}}"


LEGEND = (
    ("run", "a run"),
    ("many", "several, as high as their share of the time"),
    ("wait", "due, and waiting"),
    ("bad", "did not succeed"),
    ("missed", "missed"),
)


class Bar(msgspec.Struct):
    """A stretch of a row; what is too near to the one before becomes part of it."""

    kind: str
    left: float
    right: float
    first: float
    last: float
    count: int = 1
    busy: float = 0.0
    """pixels of it in which something really ran"""

    @property
    def share(self) -> float:
        """How much of a row's height it takes."""
        return max(LOWEST, min(1.0, self.busy / (self.right - self.left))) if self.kind == "many" else 1.0


class Scale(msgspec.Struct, frozen=True):
    start: float
    until: float
    left: float
    right: float

    def x(self, at: float) -> float:
        share = (min(max(at, self.start), self.until) - self.start) / (self.until - self.start)
        return self.left + share * (self.right - self.left)


def gantt(forecast: Forecast, zone: tzinfo) -> str:
    """The whole picture, as the text of an SVG file."""
    jobs = forecast.jobs[:MOST_ROWS]
    names = [_cut(job.id) for job in jobs]
    left = 24 + CHARACTER * max((len(name) for name in names), default=0)
    right = WIDTH - 26 - CHARACTER * max((len(figures(job)) for job in jobs), default=0)
    scale = Scale(forecast.start, forecast.until, left, right)
    height = TOP + ROW * len(jobs) + BOTTOM
    by_job: dict[str, list[RunForecast]] = {job.id: [] for job in jobs}
    for run in forecast.runs:
        if run.job_id in by_job:
            by_job[run.job_id].append(run)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
        ' role="img">',
        f"<title>{_title(forecast, zone)}</title>",
        _style(),
        f'<rect class="paper" width="{WIDTH}" height="{height}"/>',
        *_head(forecast, zone),
        *_stripes(len(jobs)),
        *_axis(ticks(forecast.start, forecast.until, zone, most=int((right - left) / 70)), scale, len(jobs)),
    ]
    for place, (job, name) in enumerate(zip(jobs, names, strict=True)):
        lines += _row(job, name, by_job[job.id], TOP + ROW * place, scale, zone)
    lines += [*_legend(height - 16, len(forecast.jobs) - len(jobs)), "</svg>", ""]
    return "\n".join(lines)


# ── around the rows ─────────────────────────────────────────────────────────────────────────────────────────────────


def _title(forecast: Forecast, zone: tzinfo) -> str:
    return escape(f"What would run from {_time(forecast.start, zone)} to {_time(forecast.until, zone)} ({zone})")


def _head(forecast: Forecast, zone: tzinfo) -> Iterator[str]:
    yield f'<text class="title" x="16" y="28">{_title(forecast, zone)}</text>'
    missed, waited = sum(job.missed for job in forecast.jobs), sum(job.waited for job in forecast.jobs)
    counts = f"{len(forecast.runs):,} runs of {len(forecast.jobs):,} jobs, {waited:,} waited, {missed:,} missed"
    lanes = "; ".join(f"lane {lane.name}: at most {lane.most} of {lane.limit} at once" for lane in forecast.lanes[:4])
    yield f'<text class="dim" x="16" y="48">{escape(counts + ("; " + lanes if lanes else ""))}</text>'


def _stripes(rows: int) -> Iterator[str]:
    for place in range(0, rows, 2):
        yield f'<rect class="stripe" y="{TOP + ROW * place}" width="{WIDTH}" height="{ROW}"/>'


def _axis(found: Sequence[Tick], scale: Scale, rows: int) -> Iterator[str]:
    bottom = TOP + ROW * rows
    for tick in found:
        x = _number(scale.x(tick.at))
        kind = "day" if tick.is_day else "line"
        yield f'<path class="{kind}" d="M{x} {TOP - 6}V{bottom}"/>'
        yield f'<text class="middle{"" if tick.is_day else " dim"}" x="{x}" y="{TOP - 11}">{tick.text}</text>'


def _legend(y: float, left_out: int) -> Iterator[str]:
    x = 16.0
    for kind, text in LEGEND:
        yield f'<rect class="{kind}" x="{_number(x)}" y="{y - 9}" width="14" height="{4 if kind == "missed" else 10}"/>'
        yield f'<text class="dim" x="{_number(x + 20)}" y="{y}">{text}</text>'
        x += 46 + 6.1 * len(text)
    if left_out:
        yield f'<text class="dim end" x="{WIDTH - 16}" y="{y}">{left_out:,} more jobs are left out</text>'


# ── a row ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _row(
    job: JobForecast, name: str, runs: Sequence[RunForecast], y: float, scale: Scale, zone: tzinfo
) -> Iterator[str]:
    yield f'<text x="16" y="{y + 16}">{escape(name)}<title>{escape(f"{job.id}: {job.schedule}")}</title></text>'
    yield f'<text class="dim" x="{_number(scale.right + 10)}" y="{y + 16}">{figures(job)}</text>'
    count = min(max(1, job.most_at_once), MOST_TRACKS)
    tracks = _tracks(sorted((run for run in runs if run.started_at is not None), key=_begin), count)
    height = (ROW - 8) / count
    for place, track in enumerate(tracks):
        yield from _draw(bars(track, scale), y + 4 + place * height, max(2.0, height - (count > 1)), zone)
    missed = [
        Bar("missed", scale.x(run.due_at), scale.x(run.due_at), run.due_at, run.due_at) for run in runs if run.is_missed
    ]
    yield from _draw(merged(missed), y + ROW - 5, 4, zone)


def figures(job: JobForecast) -> str:
    parts = [
        f"{job.runs:,}",
        f"{job.waited:,} waited" if job.waited else "",
        f"{job.missed:,} missed" if job.missed else "",
    ]
    return " · ".join(part for part in parts if part)


def _begin(run: RunForecast) -> float:
    return run.started_at or 0.0


def _tracks(runs: Iterable[RunForecast], count: int) -> list[list[RunForecast]]:
    """The runs, each on the first track that is free, so that those at the same time lie below each other."""
    tracks: list[list[RunForecast]] = [[] for _ in range(count)]
    free = [0.0] * count
    for run in runs:
        place = next(
            (place for place in range(count) if free[place] <= _begin(run)), min(range(count), key=free.__getitem__)
        )
        tracks[place].append(run)
        free[place] = max(free[place], float("inf") if run.ended_at is None else run.ended_at)
    return tracks


def bars(runs: Iterable[RunForecast], scale: Scale) -> list[Bar]:
    """What there is to draw of runs that began, in order: their waits, and themselves."""
    found: list[Bar] = []
    for run in runs:
        begin, end = _begin(run), scale.until if run.ended_at is None else run.ended_at
        if run.waited_for is not None:
            found.append(Bar("wait", scale.x(run.due_at), scale.x(begin), run.due_at, begin))
        if begin < scale.until:
            kind = "run" if run.state == "succeeded" or run.ended_at is None else "bad"
            found.append(Bar(kind, scale.x(begin), scale.x(end), begin, end))
    waits = merged([bar for bar in found if bar.kind == "wait"])
    return waits + merged([bar for bar in found if bar.kind != "wait"])


def merged(found: Iterable[Bar]) -> list[Bar]:
    """With those put together that a person could not tell apart."""
    kept: list[Bar] = []
    for bar in found:
        bar.busy = bar.right - bar.left
        bar.right = max(bar.right, bar.left + NARROWEST)
        before = kept[-1] if kept else None
        if before is not None and before.kind == bar.kind and bar.left - before.right < GAP:
            before.right, before.last = max(before.right, bar.right), max(before.last, bar.last)
            before.count += 1
            before.busy += bar.busy
        else:
            kept.append(bar)
    for bar in kept:
        if bar.kind == "run" and bar.count > 1 and bar.busy < 0.9 * (bar.right - bar.left):
            bar.kind = "many"
    return kept


def _draw(found: Sequence[Bar], y: float, height: float, zone: tzinfo) -> Iterator[str]:
    if len(found) <= MOST_ALONE:
        for bar in found:
            x, top, width, tall = map(_number, _box(bar, y, height))
            place = f'x="{x}" y="{top}" width="{width}" height="{tall}"'
            yield f'<rect class="{bar.kind}" {place}><title>{_told(bar, zone)}</title></rect>'
        return
    for kind, alike in groupby(sorted(found, key=lambda bar: bar.kind), key=lambda bar: bar.kind):
        boxes = (map(_number, _box(bar, y, height)) for bar in alike)
        shape = "".join(f"M{x} {top}h{width}v{tall}H{x}z" for x, top, width, tall in boxes)
        yield f'<path class="{kind}" d="{shape}"/>'


def _box(bar: Bar, y: float, height: float) -> tuple[float, float, float, float]:
    """Left, top, width and height."""
    return bar.left, y + height * (1 - bar.share) / 2, bar.right - bar.left, height * bar.share


def _told(bar: Bar, zone: tzinfo) -> str:
    what = {"run": "", "many": "", "wait": "waiting ", "bad": "not succeeded ", "missed": "missed "}[bar.kind]
    count = f"{bar.count:,} times, " if bar.count > 1 else ""
    until = f" to {_time(bar.last, zone)}" if bar.last > bar.first else ""
    return f"{what}{count}{_time(bar.first, zone)}{until}"


def _time(at: float, zone: tzinfo) -> str:
    time = datetime.fromtimestamp(at, zone)
    return f"{day_text(time)} {time.year} {time:%H:%M}" + (f":{time:%S}" if time.second else "")


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
