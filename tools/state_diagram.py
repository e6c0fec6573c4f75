"""Write the table of states in ARCHITECTURE.md from `model/state.py`: `python -m tools.state_diagram`.

The prose around the two marks stays."""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from interlock.model import state as model
from interlock.model.state import ALLOWED, TERMINAL, State

DOCUMENT = Path("ARCHITECTURE.md")
BEGIN = "<!-- From here written by `python -m tools.state_diagram`; do not edit it by hand. -->"
END = "<!-- Up to here. -->"


def table() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    meanings = _meanings()
    yield "| state | meaning | may become | may end as |\n|---|---|---|---|"
    for state in State:
        if state in TERMINAL:
            continue
        after = ALLOWED[state]
        yield f"| {_name(state)} | {meanings[state]} | {_names(after - TERMINAL)} | {_names(after & TERMINAL)} |"
    yield f"\nTerminal: {_names(TERMINAL)}. An ended run does not change any more, with these exceptions:"
    changes = [f"{_name(state)} → {_names(ALLOWED[state])}" for state in State if state in TERMINAL and ALLOWED[state]]
    yield f"{', '.join(changes)}."


def _meanings() -> dict[State, str]:
    """Return the comment behind each state in its enum."""
    source = Path(str(model.__file__)).read_text()
    (found,) = [one for one in ast.parse(source).body if isinstance(one, ast.ClassDef) and one.name == State.__name__]
    lines = source.splitlines()[found.lineno : found.end_lineno]
    comments = (re.match(r"\s+(\w+) = \S+(?:  # (.*))?$", line) for line in lines)
    return {State[one[1]]: one[2] or "" for one in comments if one is not None}


def _name(state: State) -> str:
    return f"`{state}`"


def _names(states: Iterable[State]) -> str:
    """Return the names in the order of the enum."""
    wanted = set(states)
    return ", ".join(_name(state) for state in State if state in wanted)


def document() -> str:
    before, begin, rest = DOCUMENT.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{DOCUMENT}: the marks are missing:\n{BEGIN}\n{END}")
    return f"{before}{BEGIN}\n\n{table()}\n{END}{after}"


if __name__ == "__main__":
    DOCUMENT.write_text(document())
    sys.stdout.write(f"wrote {DOCUMENT}\n")
