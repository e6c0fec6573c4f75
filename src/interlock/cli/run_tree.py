"""Runs as a tree: each below the one that made it."""

from collections.abc import Iterator, Sequence

import msgspec

from interlock.model.run_view import RunInfo


class Branch(msgspec.Struct, frozen=True):
    depth: int  # listed runs above it
    run: RunInfo

    def draw(self, is_last: Sequence[bool]) -> str:
        """Return the lines before its name; `is_last` says of it and those above whether others follow them."""
        if self.depth == 0:
            return ""
        return "".join("   " if one else "│  " for one in is_last[1:-1]) + ("└─ " if is_last[-1] else "├─ ")


def branches(runs: Sequence[RunInfo]) -> list[Branch]:
    """Return runs in the order of their tree: the newest first, and below each the runs that it made, oldest first. A
    run whose parent is not listed stands at the top."""
    listed = {run.id for run in runs}
    below: dict[str, list[RunInfo]] = {}
    for run in runs:
        below.setdefault(run.parent if run.parent in listed and run.parent is not None else "", []).append(run)
    found, left = [], [Branch(0, run) for run in reversed(below.get("", []))]
    while left:
        found.append(left.pop())
        left += [Branch(found[-1].depth + 1, run) for run in below.get(found[-1].run.id, [])]
    return found


def drawn(tree: Sequence[Branch]) -> Iterator[tuple[str, RunInfo]]:
    """Yield each run with the lines that lead to it."""
    depths = [branch.depth for branch in tree]
    path: list[bool] = []
    for place, branch in enumerate(tree):
        later = next((depth for depth in depths[place + 1 :] if depth <= branch.depth), -1)
        path[branch.depth :] = [later < branch.depth]
        yield branch.draw(path), branch.run
