"""The benchmark of workflows, in little: its peer does the work, and figures become ratios."""

from pathlib import Path

import pytest

from bench import dbos_peer, installed, workflows
from tests.helpers.places import folder

__all__ = ["folder"]


def test_dbos_executes_every_workflow(folder: Path) -> None:
    if not installed(dbos_peer.PACKAGE):
        pytest.skip("DBOS is not installed")
    found = dbos_peer.measure(folder)
    assert found.keys() == {"dbos", "dbos_at_once"}
    assert all(rate > 0 for rate in found.values())


def test_a_ratio_is_the_median_of_the_rounds_and_divides_by_a_peer() -> None:
    found = {"graph": [20.0, 40.0, 15.0], "chained": [40.0, 50.0, 10.0], "graph_rate": [900.0, 800.0, 10.0]}
    found["dbos"] = [30.0, 20.0, 10.0]
    assert workflows.ratio(found, "graph") == 0.8
    assert workflows.ratio(found, "dbos") == 30.0
