"""Makes docs/terminal.svg of what the commands really print: `python -m tests.docs.picture`."""

import io
import re
import sys
from collections.abc import Iterator
from html import escape
from itertools import groupby

from rich.console import Console
from rich.segment import Segment
from rich.terminal_theme import TerminalTheme
from rich.text import Text

import interlock as il
from tests.cli.terminal import in_a_terminal
from tests.docs.blocks import ROOT
from tests.helpers.places import clean_folder
from tests.helpers.server import Server

PICTURE = ROOT / "docs" / "terminal.svg"
COLUMNS = 104
CELL_WIDTH, CELL_HEIGHT, MARGIN = 8.4, 18, 16
THEME = TerminalTheme(
    (24, 26, 31),
    (212, 214, 219),
    [(60, 64, 72), (240, 113, 120), (126, 202, 126), (229, 192, 103), (97, 160, 235), (198, 130, 220), (90, 190, 200),
     (212, 214, 219)],
)  # fmt: skip
# No fonts and nothing else of the net: whoever looks at it tells nobody.
HEAD = """<svg viewBox="0 0 {width:g} {height:g}" width="{width:g}" xmlns="http://www.w3.org/2000/svg">
<title>interlock runs, and interlock show</title>
<style>text {{ font-size: 14px; font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace }}</style>
<rect width="{width:g}" height="{height:g}" rx="8" fill="{background}"/>
"""


def draw() -> str:
    screen = Text()
    with clean_folder() as folder:
        options = ("--http", "local", "--drain", "0s")
        with Server(folder, *options, target="tests.docs.picture_jobs:app") as server:
            with il.Client(f"unix:{server.http_socket}") as client:
                synced = work(client)
            for command in ("runs", f"show {synced}"):
                screen += Text.assemble(("$ ", "green"), (f"interlock {command}\n", "bold"))
                screen += Text.from_ansi(in_a_terminal(folder, *command.split(), COLUMNS=str(COLUMNS)).rstrip())
                screen += Text("\n\n")
    screen.rstrip()
    return svg(screen)


def work(client: il.Client) -> str:
    """Runs in many states; returns the one to show."""
    ended = client.submit_many([("thumbnails", {"photos": 80}), ("mail.send", {"to": "ann@example.org"})])
    ended.append(client.submit("import.csv", {"file": "customers.csv"}))
    ended.append(synced := client.submit("orders.sync", {"shop": "shop.example"}))
    client.submit("report.nightly", {"day": "2026-01-31"})
    client.submit("report.nightly", {"day": "2026-02-01"}, delay="2h")
    client.submit("mail.send", {"to": "team@example.org"}, delay="1h").cancel("no longer needed")
    for run in ended:
        run.wait("60s")
    return synced.id


def svg(screen: Text) -> str:
    """Every word at the column where a terminal has it, whatever font it is shown in."""
    console = Console(width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    lines = console.render_lines(screen, pad=False)
    width = 2 * MARGIN + COLUMNS * CELL_WIDTH
    height = 2 * MARGIN + len(lines) * CELL_HEIGHT
    parts = [HEAD.format(width=width, height=height, background=THEME.background_color.hex)]
    for row, line in enumerate(lines):
        parts += _line(line, MARGIN + row * CELL_HEIGHT)
    return "".join([*parts, "</svg>\n"])


def _line(line: list[Segment], y: float) -> Iterator[str]:
    column = 0
    for text, style, _ in line:
        colour = THEME.foreground_color.hex
        if style is not None and style.color is not None:
            colour = style.color.get_truecolor(THEME).hex
        look = f'fill="{colour}"'
        if style is not None and style.bold:
            look += ' font-weight="bold"'
        if style is not None and style.dim:
            look += ' opacity="0.6"'
        for found in re.finditer(r"\S+", text):
            x = MARGIN + (column + found.start()) * CELL_WIDTH
            yield from _word(found[0], x, y, look)
        column += len(text)


def _word(word: str, x: float, y: float, look: str) -> Iterator[str]:
    for solid, letters in groupby(word, lambda letter: letter == "█"):
        piece = "".join(letters)
        width = len(piece) * CELL_WIDTH
        if solid:
            yield f'<rect x="{x:g}" y="{y + 3:g}" width="{width:g}" height="{CELL_HEIGHT - 6}" {look}/>\n'
        else:
            yield f'<text x="{x:g}" y="{y + 13:g}" textLength="{width:g}" {look}>{escape(piece)}</text>\n'
        x += width


if __name__ == "__main__":
    PICTURE.write_text(draw())
    sys.stdout.write(f"wrote {PICTURE.relative_to(ROOT)}\n")
