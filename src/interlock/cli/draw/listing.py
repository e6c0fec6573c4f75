"""A listing, declared once: its columns, how each is drawn, cut and piped, its name in JSON, and its sentence if it is
empty. Tables, live views, pipes and JSON read the same declaration."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar

from interlock.cli.draw.format import exact, local, span
from interlock.cli.draw.tables import console, json_text, plain, present, tabbed
from interlock.error import BadValue
from interlock.error_lines import say

T = TypeVar("T")

GAP = 2
LEAST = 6  # least characters of a column, unless it gives way
ENOUGH = 32  # characters of a column that gives way, before others are left out
BOTH, SCREEN, PIPE = "both", "screen", "pipe"


class Form(NamedTuple):
    """How a kind of value is drawn for people and piped to programs."""

    drawn: Callable[[Any, float], Any]  # of the value and the present time; text, or rich's Text
    piped: Callable[[Any], str] = plain
    right: bool = False


TEXT = Form(lambda value, _: plain(value))
NUMBER = Form(lambda number, _: f"{number:,}", right=True)
COUNT = Form(lambda number, _: f"{number:,}" if number else "", right=True)
TIME = Form(lambda at, _: local(at), exact)
AGE = Form(lambda at, now: span(now - at), exact, right=True)
AHEAD = Form(lambda at, now: span(at - now), exact, right=True)
LENGTH = Form(lambda seconds, _: span(seconds), "{:.3f}".format, right=True)
JSON = Form(lambda value, _: plain(json_text(value)), json_text)


class Column(NamedTuple):
    title: str
    value: str | Callable[[Any], Any] = ""  # field of the item, or what to make of it; by default the title's field
    form: Form = TEXT
    on: str = BOTH
    gives_way: bool = False  # cut this column before any other
    wrap: bool = False  # wrap long values instead of cutting them
    spare: int = 0  # a narrow terminal leaves out columns with a number, the smallest first
    colours: Mapping[Any, str] = {}  # by value

    def of(self, item: Any) -> Any:
        return self.value(item) if callable(self.value) else getattr(item, self.value or self.title)

    def piped(self, item: Any) -> str | None:
        value = self.of(item)
        return None if value is None else self.form.piped(value)

    def drawn(self, item: Any, now: float) -> Any:
        value = self.of(item)
        text = "" if value is None else self.form.drawn(value, now)
        if self.colours and text:
            from rich.text import Text

            text = Text(text, self.colours.get(value, ""))
        return text


def piped(*names: str) -> list[Column]:
    """Return columns of fields that only programs get."""
    return [Column(name, on=PIPE) for name in names]


class Listing(Generic[T]):
    def __init__(self, name: str, empty: str, *columns: Column, first: str = "newest", records: bool = False) -> None:
        self.name = name  # of the list in JSON
        self.empty = empty  # sentence in place of an empty table
        self.first = first  # what the first items are
        self._records = records  # whether JSON has what is piped, by title, instead of the items
        self.columns = [column for column in columns if column.on != PIPE]
        self._piped = [column for column in columns if column.on != SCREEN]

    def line(self, item: T) -> str:
        """Return the item as a line for programs."""
        return tabbed(*(column.piped(item) for column in self._piped))

    def _record(self, item: T) -> dict[str, Any]:
        return {column.title: column.piped(item) for column in self._piped}

    def show(
        self,
        json: bool,
        items: Iterable[T],
        most: int | None = None,
        more: Mapping[str, Any] = {},
        on_screen: Callable[[list[T]], Sequence[Any]] = list,
    ) -> None:
        """Print at most `most` items, and say if there are others. `more` are further fields in JSON; `on_screen`
        returns what a terminal shows of the items."""
        if most is not None and most < 1:
            raise BadValue("--limit", most, "1 or more")
        left = iter(items)
        shown = islice(left, most)
        present(
            json,
            lambda: {**more, self.name: list(map(self._record, shown) if self._records else shown)},
            lambda: map(self.line, shown),
            lambda: self.table(on_screen(list(shown))),
        )
        if most is not None and next(left, None) is not None:
            say(f"the {self.first} {most:,}; for more, use --limit")

    def table(self, items: Sequence[T], now: float | None = None, leads: Sequence[str] = (), most: int = 0) -> Any:
        """Return a table that fits the terminal, or the sentence that there is nothing. `leads` are drawn before the
        items, such as the lines of a tree. Items beyond `most` are only counted."""
        from rich.console import Group
        from rich.text import Text

        if not items:
            return Text(self.empty, style="dim")
        now = time.time() if now is None else now
        shown = items if not most or len(items) <= most else items[: most - 1]
        rows = [[column.drawn(item, now) for column in self.columns] for item in shown]
        for row, lead in zip(rows, leads, strict=False):
            row[0] = Text.assemble((lead, "dim"), row[0])
        table = _drawn(self.columns, rows)
        left = len(items) - len(shown)
        return Group(table, Text(f"… and {left:,} more", style="dim")) if left else table


def facts(pairs: Iterable[tuple[str, Any]]) -> Any:
    """Return a table of names and texts without a head; a long text is wrapped. Pairs without a text are left out."""
    rows = [[name, text] for name, text in pairs if text not in (None, "")]
    return _drawn([Column(""), Column("", wrap=True)], rows, is_headed=False) if rows else ""


def _drawn(columns: Sequence[Column], rows: Sequence[Sequence[Any]], is_headed: bool = True) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold", show_header=is_headed)
    natural = [max(len(cell) for cell in (column.title, *cells)) for column, *cells in zip(columns, *rows, strict=True)]
    empty = {place for place in range(len(columns)) if not any(row[place] for row in rows)}
    kept = list(_kept(columns, natural, empty, console().width))
    widths = _widths([columns[place] for place in kept], [natural[place] for place in kept], console().width)
    for place, width in zip(kept, widths, strict=True):
        column = columns[place]
        table.add_column(
            column.title,
            justify="right" if column.form.right else "left",
            no_wrap=not column.wrap,
            overflow="fold" if column.wrap else "ellipsis",
            width=width,
        )
    for row in rows:
        table.add_row(*(row[place] for place in kept))
    return table


def _kept(columns: Sequence[Column], natural: Sequence[int], empty: set[int], room: int) -> Iterator[int]:
    """Yield the places of the columns to draw: of those with a value, as many as fit."""
    least = {
        place: min(width, ENOUGH) if columns[place].gives_way else width
        for place, width in enumerate(natural)
        if place not in empty
    }
    for place in sorted((place for place in least if columns[place].spare), key=lambda place: columns[place].spare):
        if sum(least.values()) + GAP * (len(least) - 1) > room:
            del least[place]
    excess = sum(least.values()) + GAP * (len(least) - 1) - room
    for place, width in least.items():
        if not (columns[place].gives_way and width - excess < min(LEAST, width)):
            yield place


def _widths(columns: Sequence[Column], natural: Sequence[int], room: int) -> list[int]:
    """Return the width of each column. Columns that give way are cut first, then those that wrap, then the longest."""
    widths = list(natural)
    excess = sum(widths) + GAP * (len(widths) - 1) - room
    order = sorted(range(len(widths)), key=lambda at: (not columns[at].gives_way, not columns[at].wrap, -natural[at]))
    for place in order:
        cut = max(0, min(excess, widths[place] - LEAST))
        widths[place] -= cut
        excess -= cut
    return widths
