"""The table of states in ARCHITECTURE.md is that of the code."""

import re

import pytest

from interlock.model.state import ALLOWED, TERMINAL, State
from tests.docs.blocks import ROOT
from tools.state_diagram import DOCUMENT, document, table


@pytest.mark.behaviour("RUN-1")
def test_the_table_of_states_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert document() == DOCUMENT.read_text(), "write it again with: python -m tools.state_diagram"


@pytest.mark.behaviour("RUN-1")
def test_the_table_has_exactly_the_allowed_transitions() -> None:
    written: dict[State, set[State]] = {state: set() for state in TERMINAL}
    for row in re.findall(r"^\| (`.*) \|$", table(), re.M):
        state, meaning, *after = row.split(" | ")
        assert meaning, state
        written[State(state.strip("`"))] = {State(name) for cell in after for name in re.findall(r"`(\w+)`", cell)}
    for state, after_end in re.findall(r"`(\w+)` → `(\w+)`", table()):
        written[State(state)].add(State(after_end))
    assert written == ALLOWED
