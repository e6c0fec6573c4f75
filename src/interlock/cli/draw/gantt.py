"""A forecast as a picture: a row for each job, time from left to right, in one self-contained SVG file."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import tzinfo
from html import escape
from itertools import groupby

import msgspec

from interlock.cli.draw.axis import day_text, ticks
from interlock.cli.draw.format import counted
from interlock.cli.draw.svg import CHARACTER, head, number, text
from interlock.cli.draw.zones import clock_changes, wall
from interlock.simulation.forecast_model import Forecast, JobForecast, RunForecast

WIDTH = 1200
ROW = 24
TOP = 100  # height above the first row: title, figures, clock changes, axis
BOTTOM = 44
LONGEST_NAME = 34
MOST_ROWS = 500
MOST_TRACKS = 4
MOST_ALONE = 150  # bars of a row that get a tooltip each; more become one shape
NARROWEST = 1.5  # width of the shortest bar in pixels
TELLABLE = 3.0  # least width of a run with its own bar, in pixels
GAP = 1.0  # pixels between two bars
LOWEST = 0.2  # share of a row's height
LEGEND = {
    "run": "a run",
    "many": "several short runs, as high as their share of the time",
    "wait": "due, and waiting",
    "bad": "did not succeed",
    "missed": "missed",
}


class Bar(msgspec.Struct):
    """A stretch of a row: one run, or several too short to distinguish."""

    kind: str
    left: float
    right: float
    first: float
    last: float
    count: int = 1
    busy: float = 0.0  # pixels in which something ran

    @property
    def share(self) -> float:
        """Share of the row's height."""
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
    """Return the text of an SVG file."""
    jobs = forecast.jobs[:MOST_ROWS]
    names = [job.id if len(job.id) <= LONGEST_NAME else f"{job.id[: LONGEST_NAME - 1]}…" for job in jobs]
    left = 24 + CHARACTER * max((len(name) for name in names), default=0)
    right = WIDTH - 26 - CHARACTER * max((len(figures(job)) for job in jobs), default=0)
    scale = Scale(forecast.start, forecast.until, left, right)
    height = TOP + ROW * len(jobs) + BOTTOM
    by_job: dict[str, list[RunForecast]] = {job.id: [] for job in jobs}
    for run in forecast.runs:
        if run.job_id in by_job:
            by_job[run.job_id].append(run)
    title = escape(f"What would run from {_time(forecast.start, zone)} to {_time(forecast.until, zone)} ({zone})")
    lines = [*head(WIDTH, height, title), text(16, 48, escape(_totals(forecast)), "dim")]
    for place in range(0, len(jobs), 2):
        lines.append(f'<rect class="stripe" y="{TOP + ROW * place}" width="{WIDTH}" height="{ROW}"/>')
    lines += _axis(scale, zone, TOP + ROW * len(jobs))
    for place, (job, name) in enumerate(zip(jobs, names, strict=True)):
        lines += _row(job, name, by_job[job.id], TOP + ROW * place, scale, zone)
    lines += [*_legend(height - 16, len(forecast.jobs) - len(jobs)), "</svg>", ""]
    return "\n".join(lines)


def _totals(forecast: Forecast) -> str:
    missed, waited = sum(job.missed for job in forecast.jobs), sum(job.waited for job in forecast.jobs)
    counts = f"{counted(len(forecast.runs), 'run')} of {counted(len(forecast.jobs), 'job')}"
    lanes = [f"; lane {lane.name}: at most {lane.most} of {lane.limit} at once" for lane in forecast.lanes[:4]]
    return f"{counts}, {waited:,} waited, {missed:,} missed{''.join(lanes)}"


def _axis(scale: Scale, zone: tzinfo, bottom: int) -> Iterator[str]:
    for tick in ticks(scale.start, scale.until, zone, most=int((scale.right - scale.left) / 70)):
        x, kind = scale.x(tick.at), "day" if tick.is_day else "line"
        yield f'<path class="{kind}" d="M{number(x)} {TOP - 6}V{bottom}"/>'
        yield text(x, TOP - 11, tick.text, "middle" if tick.is_day else "middle dim")
    for change in clock_changes(scale.start, scale.until, zone):
        x = scale.x(change.at)
        yield f'<path class="change" d="M{number(x)} {TOP - 6}V{bottom}"><title>{change}</title></path>'
        yield text(x, TOP - 29, change.text, "middle")


def _legend(y: float, left_out: int) -> Iterator[str]:
    x = 16.0
    for kind, meaning in LEGEND.items():
        yield f'<rect class="{kind}" x="{number(x)}" y="{y - 9}" width="14" height="{4 if kind == "missed" else 10}"/>'
        yield text(x + 20, y, meaning, "dim")
        x += 46 + 6.1 * len(meaning)
    if left_out:
        yield text(WIDTH - 16, y, f"{counted(left_out, 'more job')} left out", "dim end")


def _row(
    job: JobForecast, name: str, runs: Sequence[RunForecast], y: float, scale: Scale, zone: tzinfo
) -> Iterator[str]:
    yield text(16, y + 16, f"{escape(name)}<title>{escape(f'{job.id}: {job.schedule}')}</title>")
    yield text(scale.right + 10, y + 16, figures(job), "dim")
    count = min(max(1, job.most_at_once), MOST_TRACKS)
    height = (ROW - 8) / count
    for place, track in enumerate(_tracks(runs, count)):
        yield from _draw(bars(track, scale), y + 4 + place * height, max(2.0, height - (count > 1)), zone)
    missed = [run.due_at for run in runs if run.is_missed]
    yield from _draw(merged(Bar("missed", scale.x(at), scale.x(at), at, at) for at in missed), y + ROW - 5, 4, zone)


def figures(job: JobForecast) -> str:
    parts = [f"{number:,} {word}" for number, word in ((job.waited, "waited"), (job.missed, "missed")) if number]
    return " · ".join([f"{job.runs:,}", *parts])


def _tracks(runs: Iterable[RunForecast], count: int) -> list[list[RunForecast]]:
    """Put each started run on the first free track, so that simultaneous runs do not overlap."""
    tracks: list[list[RunForecast]] = [[] for _ in range(count)]
    free = [0.0] * count
    for begin, _, run in sorted((run.started_at, run.id, run) for run in runs if run.started_at is not None):
        place = next((place for place in range(count) if free[place] <= begin), free.index(min(free)))
        tracks[place].append(run)
        free[place] = max(free[place], float("inf") if run.ended_at is None else run.ended_at)
    return tracks


def bars(runs: Iterable[RunForecast], scale: Scale) -> list[Bar]:
    """Return the bars of started runs in order of time: first all waits, then the runs."""
    waits: list[Bar] = []
    found: list[Bar] = []
    for run in runs:
        begin, end = run.started_at or 0.0, scale.until if run.ended_at is None else run.ended_at
        if run.waited_for is not None:
            waits.append(Bar("wait", scale.x(run.due_at), scale.x(begin), run.due_at, begin))
        if begin < scale.until:
            kind = "run" if run.state == "succeeded" or run.ended_at is None else "bad"
            found.append(Bar(kind, scale.x(begin), scale.x(end), begin, end))
    return merged(waits) + merged(found)


def merged(found: Iterable[Bar]) -> list[Bar]:
    """Join neighbours of one kind that are too short to distinguish; leave a gap between all others."""
    kept: list[Bar] = []
    for bar in found:
        bar.busy = bar.right - bar.left
        bar.right = max(bar.right, bar.left + NARROWEST)
        before = kept[-1] if kept else None
        if before is None or bar.left - before.right >= GAP:
            kept.append(bar)
        elif before.kind.replace("many", "run") == bar.kind and bar.busy < TELLABLE and _is_short(before):
            before.right, before.last = max(before.right, bar.right), max(before.last, bar.last)
            before.count += 1
            before.busy += bar.busy
            before.kind = "many" if bar.kind == "run" else bar.kind
        else:
            before.right = max(before.left + GAP / 2, bar.left - GAP)
            kept.append(bar)
    return kept


def _is_short(bar: Bar) -> bool:
    return bar.count > 1 or bar.busy < TELLABLE


def _draw(found: Sequence[Bar], y: float, height: float, zone: tzinfo) -> Iterator[str]:
    """Draw bars with tooltips, or one shape for each kind if there are very many."""

    def box(bar: Bar) -> Iterable[str]:
        return map(number, (bar.left, y + height * (1 - bar.share) / 2, bar.right - bar.left, height * bar.share))

    if len(found) <= MOST_ALONE:
        for bar in found:
            place = 'x="{}" y="{}" width="{}" height="{}"'.format(*box(bar))
            yield f'<rect class="{bar.kind}" {place}><title>{_tooltip(bar, zone)}</title></rect>'
        return
    for kind, alike in groupby(sorted(found, key=lambda bar: bar.kind), key=lambda bar: bar.kind):
        shape = "".join(f"M{x} {top}h{width}v{tall}H{x}z" for x, top, width, tall in map(box, alike))
        yield f'<path class="{kind}" d="{shape}"/>'


def _tooltip(bar: Bar, zone: tzinfo) -> str:
    what = {"wait": "waiting ", "bad": "not succeeded ", "missed": "missed "}.get(bar.kind, "")
    count = f"{bar.count:,} times, " if bar.count > 1 else ""
    until = f" to {_time(bar.last, zone)}" if bar.last > bar.first else ""
    return f"{what}{count}{_time(bar.first, zone)}{until}"


def _time(at: float, zone: tzinfo) -> str:
    time = wall(at, zone)
    return f"{day_text(time)} {time.year} {time:%H:%M}" + (f":{time:%S}" if time.second else "")
