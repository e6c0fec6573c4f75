"""Children of the supervision tree: lines for programs, a drawing for people."""

from collections.abc import Iterator, Sequence
from typing import Any

from interlock.cli.draw.format import ago, exact, span
from interlock.cli.draw.tables import GAP, LEAST, Column, columns_of, console, plain, rich_table, tabbed
from interlock.fields.safe_text import safe
from interlock.model.child_info import UP, ChildInfo, Status

STATUS_COLOURS = {
    Status.RUNNING: "green",
    Status.STARTING: "cyan",
    **dict.fromkeys((Status.PENDING, Status.SUSPENDED, Status.STOPPING), "yellow"),
    **dict.fromkeys((Status.KILLED, Status.FAILED), "red"),
    **dict.fromkeys((Status.CREATED, Status.STOPPED, Status.FINISHED), "dim"),
}

SPARED = ("kind", "last exit", "restarts", "pid", "up", "next try")
"""columns that a narrow terminal leaves out, in this order"""
REASON = 32  # characters of the reason to keep before leaving out columns
ENDED = 32  # characters of the last exit; piped output has all
LIVES = UP | {Status.STARTING, Status.STOPPING}


def everybody(top: ChildInfo) -> Iterator[ChildInfo]:
    """Yield the child and everything below it, parents first."""
    yield top
    for child in top.children:
        yield from everybody(child)


def line_of(child: ChildInfo) -> str:
    """Return the line for programs, separated by tabs."""
    since, due = exact(child.since), exact(child.next_try_at)
    status, ended = child.status.value, child.last_exit
    return tabbed(child.path, child.kind, status, child.pid, since, child.restarts, due, ended, why(child))


def sentence_of(child: ChildInfo, now: float) -> str:
    parts = [child.status.value]
    if child.status in LIVES:
        parts += [f"pid {child.pid}"] if child.pid is not None else []
        parts += [f"up {span(now - child.since)}"] if child.since is not None else []
    if child.next_try_at is not None:
        parts.append(f"next try in {span(child.next_try_at - now)}")
    if child.status not in UP and (reason := why(child) or str(child.last_exit or "")):
        parts.append(reason)
    return plain(f"{child.name}: {', '.join(parts)}")


def why(child: ChildInfo) -> str:
    return ", ".join(part for part in ("given up" if child.exhausted else "", child.reason) if part)


def drawing(top: ChildInfo, now: float) -> Any:
    from rich.console import Group
    from rich.text import Text

    found = [one for one in everybody(top) if one.traceback]
    tracebacks = [Text(safe(f"\n{one.path}: {one.reason}\n{one.traceback}"), style="red") for one in found]
    return Group(rich_table(*table_of([top], now, "name")), *tracebacks)


def table_of(top: Sequence[ChildInfo], now: float, title: str) -> tuple[list[Column], list[list[Any]]]:
    """Return columns and rows that fit the terminal; `title` is the heading of the names."""
    from rich.text import Text

    columns = columns_of(f"{title}, kind, status, >pid, >up, >restarts, next try, last exit, ~why")
    rows: list[list[Any]] = []
    for branches, child in (line for one in top for line in _branches(one, "", "")):
        name = Text.assemble((branches, "dim"), plain(child.name))
        status = Text(child.status.value, style=STATUS_COLOURS[child.status])
        pid = str(child.pid or "")
        up = span(now - child.since) if child.since is not None and child.status in LIVES else ""
        due = "" if child.next_try_at is None else f"in {span(child.next_try_at - now)}"
        cells = [name, child.kind, status, pid, up, str(child.restarts or "")]
        rows.append([*cells, due, Text(_ended(child, now)), Text(plain(why(child)))])
    kept = _fitting(columns, rows, console().width) if rows else []
    return [columns[place] for place in kept], [[row[place] for place in kept] for row in rows]


def _ended(child: ChildInfo, now: float) -> str:
    """Return the last exit and its time; only the time if the reason beside it is the exit."""
    if child.last_exit is None:
        return ""
    how, when = plain(child.last_exit), ago(child.last_exit.at, now)
    if child.reason == str(child.last_exit):
        return when
    return f"{how if len(how) <= ENDED else how[: ENDED - 1] + '…'}, {when}"


def _fitting(columns: Sequence[Column], rows: Sequence[Sequence[Any]], room: int) -> list[int]:
    """Return the indices of columns with values; a narrow terminal leaves out `SPARED` ones."""
    widths = {place: max(len(row[place]) for row in rows) for place in range(len(columns))}
    kept = {
        column.title: min(max(widths[place], len(column.title)), REASON if column.gives_way else room)
        for place, column in enumerate(columns)
        if widths[place]
    }

    def excess() -> int:
        return sum(kept.values()) + GAP * (len(kept) - 1) - room

    for title in SPARED:
        if excess() > 0:
            kept.pop(title, None)
    if excess() > 0 and kept.get("why", LEAST) - excess() < LEAST:
        kept.pop("why", None)
    return [place for place, column in enumerate(columns) if column.title in kept]


def _branches(child: ChildInfo, first: str, rest: str) -> Iterator[tuple[str, ChildInfo]]:
    """Yield each child with the lines that lead to it."""
    yield first, child
    for place, below in enumerate(child.children):
        last = place == len(child.children) - 1
        yield from _branches(below, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))
