"""A workflow run as a picture: the graph of its steps above, when each ran below, in one self-contained SVG file."""

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from interlock.cli.draw.format import span
from interlock.cli.draw.run_tree import Branch, branches
from interlock.cli.draw.svg import CHARACTER, head, number, text
from interlock.fields.duration import brief
from interlock.fields.safe_text import safe
from interlock.interface.run_view import RunInfo
from interlock.interface.step_view import StepGraph
from interlock.model.state import TERMINAL, State
from interlock.model.workflow import GROUP

WIDTH = 1200
TOP = 64  # height above the graph: title and figures
BOX, BOX_HEIGHT, BETWEEN = 132, 30, 42  # width and height of a step in the graph, and room beside it
ROW = 24
AXIS = 40  # height above the first row
MOST_ROWS = 500
LONGEST_NAME = 34
INDENT = 14
NARROWEST = 1.5
TICK = 90  # least pixels between two marks
_ENDS = {State.SUCCEEDED: "run", State.SKIPPED: "day", State.CANCELLED: "day"}  # others are bad


def flow_chart(
    run: RunInfo, steps: Sequence[RunInfo], graph: StepGraph | None, now: float, above: Mapping[str, str]
) -> str:
    """Return the text of an SVG file. `steps` are all below the run, the newest first; `above` names the parallel step
    around a step."""
    rows = [branch for _, branch in branches([*steps, run], above)][:MOST_ROWS]
    layers = [] if graph is None else layers_of(graph)
    width = max(WIDTH, 32 + len(layers) * (BOX + BETWEEN))
    graph_height = max((len(layer) for layer in layers), default=0) * (BOX_HEIGHT + 14) + (20 if layers else 0)
    top = TOP + graph_height + AXIS
    title = escape(safe(f"{run.job_id} {run.id}"))
    begin = run.started_at or run.created_at
    took = f"{run.state}, {len(steps):,} steps, {span((run.ended_at or now) - begin)}"
    left_out = f"; the first {MOST_ROWS:,} are drawn" if len(steps) >= MOST_ROWS else ""
    lines = [*head(width, top + ROW * len(rows) + 20, title), text(16, 48, escape(took + left_out), "dim")]
    if graph is not None:
        lines += _graph(graph, layers, {step.id: step for step in steps}, run.id)
    lines += _times(rows, width, top, begin, now)
    return "\n".join([*lines, "</svg>", ""])


def layers_of(graph: StepGraph) -> list[list[str]]:
    """Return the steps in columns: each stands right of all that it follows."""
    follows = {**graph.follows, **graph.on_error}
    depth: dict[str, int] = {}

    def of(name: str) -> int:
        if name not in depth:
            depth[name] = 1 + max((of(before) for before in follows.get(name, ())), default=-1)
        return depth[name]

    layers: list[list[str]] = [[] for _ in range(1 + max(map(of, follows), default=-1))]
    for name in follows:
        layers[depth[name]].append(name)
    return layers


def _graph(
    graph: StepGraph, layers: Sequence[Sequence[str]], steps: Mapping[str, RunInfo], run_id: str
) -> Iterator[str]:
    place = {
        name: (16 + column * (BOX + BETWEEN), TOP + row * (BOX_HEIGHT + 14))
        for column, layer in enumerate(layers)
        for row, name in enumerate(layer)
    }
    for kind, edges in (("day", graph.follows), ("change", graph.on_error)):
        for name, before in edges.items():
            for one in before:
                (x, y), (to_x, to_y) = place[one], place[name]
                start, end, middle = x + BOX, to_x, (x + BOX + to_x) / 2
                y, to_y = y + BOX_HEIGHT // 2, to_y + BOX_HEIGHT // 2
                yield f'<path class="{kind}" d="M{start} {y}C{middle:.0f} {y} {middle:.0f} {to_y} {end} {to_y}"/>'
    for name, (x, y) in place.items():
        step = steps.get(f"{run_id}@{name}")
        kind, told = ("line", "not started") if step is None else (_kind(step), f"{step.state}: {step.reason}")
        box = f'x="{x}" y="{y}" width="{BOX}" height="{BOX_HEIGHT}"'
        yield f'<rect class="paper" {box} rx="5"/>'
        yield f'<rect class="line" {box} rx="5"><title>{escape(safe(told))}</title></rect>'
        if step is not None:
            yield f'<rect class="{kind}" x="{x}" y="{y}" width="5" height="{BOX_HEIGHT}"/>'
        yield text(x + 14, y + 19, escape(_cut(name, 17)), "dim" if step is None else "")


def _kind(step: RunInfo) -> str:
    return _ENDS.get(step.state, "missed") if step.state in TERMINAL else "many"


def _cut(name: str, longest: int) -> str:
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


def _times(rows: Sequence[Branch], width: float, top: float, begin: float, now: float) -> Iterator[str]:
    runs = [(branch.depth, branch.run) for branch in rows]
    names = [(depth, _cut(_name(run), LONGEST_NAME)) for depth, run in runs]
    left = 32 + max(INDENT * depth + CHARACTER * len(name) for depth, name in names)
    right = width - 84
    until = max([begin + 0.001, *(run.ended_at or now for _, run in runs)])
    bottom = top + ROW * len(runs)

    def x(at: float) -> float:
        return left + (min(max(at, begin), until) - begin) / (until - begin) * (right - left)

    for place in range(0, len(runs), 2):
        yield f'<rect class="stripe" y="{number(top + ROW * place)}" width="{number(width)}" height="{ROW}"/>'
    for after in marks(until - begin, int((right - left) / TICK)):
        yield f'<path class="line" d="M{number(x(begin + after))} {number(top - 6)}V{number(bottom)}"/>'
        yield text(x(begin + after), top - 11, brief(after) if after < 60 else span(after), "middle dim")
    for place, ((depth, run), (_, name)) in enumerate(zip(runs, names, strict=True)):
        y = top + ROW * place
        yield text(16 + INDENT * depth, y + 16, f"{escape(safe(name))}<title>{escape(safe(run.id))}</title>")
        end = run.ended_at or now
        start = end if run.started_at is None else run.started_at
        bars = [("wait", run.created_at, start, f"waited {span(start - run.created_at)}")] if depth else []
        bars.append((_kind(run), start, end, f"{run.state}: {run.reason}"))
        for kind, first, last, told in bars:
            if last > first or kind != "wait":
                size = max(NARROWEST, x(last) - x(first))
                box = f'x="{number(x(first))}" y="{number(y + 5)}" width="{number(size)}" height="{ROW - 10}"'
                yield f'<rect class="{kind}" {box}><title>{escape(safe(told))}</title></rect>'
        yield text(right + 10, y + 16, escape(span(end - (run.started_at or run.created_at))), "dim")


def _name(run: RunInfo) -> str:
    name = run.id.rpartition("@")[2] if "@" in run.id else run.job_id
    return name if run.job_id == GROUP or "." not in name or "@" not in run.id else name.rpartition(".")[2]


def marks(length: float, most: int) -> list[float]:
    """Return round spans from 0 up to a length, at most `most` and the first."""
    least = length / max(1, most)
    sizes = (base * 10**power for power in range(-3, 1) for base in (1, 2, 5))
    steps = (*sizes, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400)
    size = next((step for step in steps if step >= least), math.ceil(least / 86400) * 86400)
    return [size * place for place in range(int(length / size) + 1)]
