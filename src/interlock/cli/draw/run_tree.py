"""Runs as a tree: each below the one that made it."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from interlock.interface.run_view import RunInfo


class Branch(msgspec.Struct, frozen=True):
    depth: int  # listed runs above it
    run: RunInfo


def branches(runs: Sequence[RunInfo], above: Mapping[str, str] = {}) -> Iterator[tuple[str, Branch]]:
    """Yield runs in the order of their tree, each after the lines that lead to it: the newest first, and below each the
    runs that it made, oldest first. `above` names the runs that stand below another than their parent. A run whose
    parent is not listed stands at the top."""
    listed = {run.id for run in runs}
    below: dict[str | None, list[RunInfo]] = {}
    for run in runs:
        parent = above.get(run.id, run.parent)
        below.setdefault(parent if parent in listed else None, []).append(run)
    left = [("", "", Branch(0, run)) for run in reversed(below.get(None, []))]
    while left:
        lines, margin, branch = left.pop()
        yield lines, branch
        for run in below.get(branch.run.id, []):
            is_last = run is below[branch.run.id][0]
            own = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
            left.append((margin + own[0], margin + own[1], Branch(branch.depth + 1, run)))
