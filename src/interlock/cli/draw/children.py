"""Children of the supervision tree: lines for programs, a drawing for people."""

from collections.abc import Iterator
from typing import Any

from interlock.cli.draw.format import ago, exact, span
from interlock.cli.draw.listing import AGE, COUNT, PIPE, SCREEN, TIME, Column, Form, Listing, piped
from interlock.cli.draw.tables import plain
from interlock.fields.safe_text import safe
from interlock.model.child_info import UP, ChildInfo, Status

STATUS_COLOURS = {
    Status.RUNNING: "green",
    Status.STARTING: "cyan",
    **dict.fromkeys((Status.PENDING, Status.SUSPENDED, Status.STOPPING), "yellow"),
    **dict.fromkeys((Status.KILLED, Status.FAILED), "red"),
    **dict.fromkeys((Status.CREATED, Status.STOPPED, Status.FINISHED), "dim"),
}

ENDED = 32  # characters of the last exit; piped output has all
LIVES = UP | {Status.STARTING, Status.STOPPING}


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


def _branches(child: ChildInfo, first: str, rest: str) -> Iterator[tuple[str, ChildInfo]]:
    """Yield each child with the lines that lead to it."""
    yield first, child
    for place, below in enumerate(child.children):
        last = place == len(child.children) - 1
        yield from _branches(below, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))


def _ended(child: ChildInfo, now: float) -> str:
    """Return the last exit and its time; only the time if the reason beside it is the exit."""
    if child.last_exit is None:
        return ""
    how, when = plain(child.last_exit), ago(child.last_exit.at, now)
    if child.reason == str(child.last_exit):
        return when
    return f"{how if len(how) <= ENDED else how[: ENDED - 1] + '…'}, {when}"


def listing(title: str) -> Listing[ChildInfo]:
    """Declare a listing of children; `title` is the heading of their names."""
    return Listing(
        "children",
        f"no {title}s",
        Column(title, "name", on=SCREEN),
        *piped("path"),
        Column("kind", spare=1),
        Column("status", colours=STATUS_COLOURS),
        Column("pid", form=Form(lambda pid, _: str(pid), right=True), spare=4),
        Column("up", lambda child: child.since if child.status in LIVES else None, AGE, SCREEN, spare=5),
        Column("since", form=TIME, on=PIPE),
        Column("restarts", form=COUNT, spare=3),
        Column("next try", "next_try_at", Form(lambda at, now: f"in {span(at - now)}", exact), spare=6),
        Column("last exit", lambda child: child, Form(_ended, lambda child: str(child.last_exit or "")), spare=2),
        Column("why", why, gives_way=True),
    )


CHILDREN = listing("name")


def drawing(top: ChildInfo, now: float) -> Any:
    from rich.console import Group
    from rich.text import Text

    found = [child for child in top.everybody() if child.traceback]
    tracebacks = [Text(safe(f"\n{child.path}: {child.reason}\n{child.traceback}"), style="red") for child in found]
    leads, children = zip(*_branches(top, "", ""), strict=True)
    return Group(CHILDREN.table(children, now, leads), *tracebacks)
