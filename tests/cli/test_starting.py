"""How a run is drawn whose worker is still creating what will execute it."""

import pytest

from interlock.cli.draw.format import progress_of, why
from interlock.interface.run_view import info_of
from interlock.model.facets import ProgressInfo
from interlock.model.state import State
from tests.contract.samples import make_run

PULLS = "pulls the image a:1: 2 of 3 layers"


@pytest.mark.behaviour("RUN-21")
@pytest.mark.parametrize(("state", "shown"), [(State.STARTING, PULLS), (State.RUNNING, f"0% {PULLS}")])
def test_a_start_shows_what_it_waits_for_and_no_percentage(state: State, shown: str) -> None:
    run = info_of(make_run("r", state=state, reason="creates its container"), ProgressInfo(0.0, PULLS))
    assert (why(run), progress_of(run)) == (shown, shown)
