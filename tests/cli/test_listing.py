"""A listing: one declaration for tables, pipes and JSON."""

import json
from importlib import import_module
from typing import Any, NamedTuple

import pytest

from interlock.cli.draw.listing import AGE, COUNT, PIPE, SCREEN, Column, Listing, piped
from interlock.cli.draw.tables import console
from interlock.cli.main import COMMANDS
from interlock.error import BadValue


class Ship(NamedTuple):
    name: str
    left_at: float
    crew: int
    cargo: str
    flag: str = "none"


SHIPS = Listing[Ship](
    "ships",
    "no ships are at sea",
    Column("ship", "name"),
    Column("at sea", "left_at", AGE),
    Column("crew", form=COUNT, spare=1),
    Column("cargo", gives_way=True),
    Column("first letter", lambda ship: ship.name[0], on=SCREEN, spare=2),
    Column("letters", lambda ship: len(ship.name), on=PIPE),
    *piped("flag"),
)
FLEET = [Ship("Ada", 100.0, 1200, "tea\tand\ncoffee"), Ship("Ben", 40.0, 0, "wool " * 20)]


def drawn(items: list[Ship], width: int, monkeypatch: pytest.MonkeyPatch, **more: Any) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    screen = console()
    with screen.capture() as captured:
        screen.print(SHIPS.table(items, 160.0, **more))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_a_line_for_programs_has_every_value() -> None:
    assert SHIPS.line(FLEET[0]) == "Ada\t1970-01-01T00:01:40.000Z\t1200\ttea and coffee\t3\tnone"


def test_a_table_is_cut_where_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    title, first, second = drawn(FLEET, 100, monkeypatch)
    assert title.split() == ["ship", "at", "sea", "crew", "cargo", "first", "letter"]
    assert (first.split()[:5], second.split()[:3]) == (["Ada", "1m", "1,200", "tea", "and"], ["Ben", "2m", "wool"])
    assert "…" in second
    narrow = drawn(FLEET, 50, monkeypatch)
    assert narrow[0].split() == ["ship", "at", "sea", "cargo"]
    assert max(map(len, narrow)) <= 50
    assert drawn(FLEET, 16, monkeypatch)[0].split() == ["ship", "at", "sea"]


def test_a_column_without_a_value_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "crew" not in drawn(FLEET[1:], 160, monkeypatch)[0]


def test_an_empty_table_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    assert drawn([], 80, monkeypatch) == ["no ships are at sea"]


def test_a_full_screen_counts_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = drawn(FLEET * 5, 80, monkeypatch, most=4)
    assert (len(lines), lines[-1]) == (5, "… and 7 more")


def test_leads_are_drawn_before_the_items(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [line[:7] for line in drawn(FLEET, 80, monkeypatch, leads=["", "└─ "])] == ["ship   ", "Ada    ", "└─ Ben "]


def test_piped_and_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    SHIPS.show(False, iter(FLEET), 1)
    lines, note = capsys.readouterr()
    assert (lines, note) == (f"{SHIPS.line(FLEET[0])}\n", "the newest 1; for more, use --limit\n")
    SHIPS.show(True, FLEET, 2, {"at": 5})
    text, note = capsys.readouterr()
    assert (json.loads(text), note) == ({"at": 5, "ships": [list(ship) for ship in FLEET]}, "")
    with pytest.raises(BadValue, match="--limit: 0 is not 1 or more"):
        SHIPS.show(True, FLEET, 0)


def test_every_file_in_look_is_a_command() -> None:
    names = [name for name, panel in COMMANDS.items() if panel == "Look"]
    assert {"jobs", "lanes", "runs", "workers"} <= set(names)
    assert all(callable(import_module(f"interlock.cli.look.{name}").command) for name in names)
