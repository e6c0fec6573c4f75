"""Standard output: JSON, drawings in a terminal, plain and complete lines when piped."""

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from interlock.error import InterlockError
from interlock.fields.json_form import encode
from interlock.fields.safe_text import safe, safe_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

T = TypeVar("T")


def out(text: str) -> None:
    sys.stdout.write(text + "\n")


def json_text(value: Any, indent: bool = False) -> str:
    data = encode(value)
    return safe_json((msgspec.json.format(data, indent=2) if indent else data).decode())


def print_json(value: Any, indent: bool = False) -> None:
    """Print JSON: on one line for a program, indented in a terminal."""
    out(json_text(value, indent or sys.stdout.isatty()))


def present(
    json: bool, value: Callable[[], Any], lines: Callable[[], Iterable[str]], drawing: Callable[[], Any]
) -> None:
    """Print the value as JSON on request, else as a drawing in a terminal, else as lines for a program."""
    if json:
        print_json(value())
    elif not sys.stdout.isatty():
        for line in lines():
            out(line)
    elif isinstance(drawn := drawing(), str):
        out(drawn)
    else:
        console().print(drawn)


def console() -> "Console":
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def full_screen() -> "Live":
    """Return the terminal's alternate screen. Every drawing fills it, so no line of an earlier one remains."""
    from rich.live import Live

    return Live(console=console(), screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)


def tabbed(*cells: Any) -> str:
    """Return a line for programs: tabs between the values, nothing cut; None is empty."""
    return "\t".join("" if cell is None else plain(cell) for cell in cells)


def plain(cell: Any) -> str:
    """Return the cell on one line and without tabs."""
    return safe(" ".join(str(cell).split()))


def on_one_line(text: str) -> str:
    """Return printed or logged text on one line; it keeps its spaces, because it is often indented."""
    return safe(" ".join(text.expandtabs().splitlines()))


def each(named: Iterable[str], act: Callable[[str], T], *expected: type[InterlockError]) -> Iterator[T]:
    """Act on each, even if another fails with an expected error; raise the first such error at the end."""
    failure: InterlockError | None = None
    for one in named:
        try:
            done = act(one)
        except expected as error:
            failure = failure or error
        else:
            yield done
    if failure is not None:
        raise failure


def report_each(done: Iterator[T], json: bool, name: str, line: Callable[[T], str]) -> None:
    """Print a line for each result as it comes; or all results as JSON, even if an error ends them."""
    found: list[T] = []
    try:
        for one in done:
            found.append(one)
            if not json:
                out(line(one))
    finally:
        if json:
            print_json({name: found})
