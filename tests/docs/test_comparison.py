"""The comparison: each row says something of every project, and links ours to where it is shown."""

import re

from tests.docs.blocks import ROOT

PROJECTS = ["", "Celery", "APScheduler", "Prefect", "Temporal", "Procrastinate", "Interlock"]


def test_every_row_is_complete_and_linked() -> None:
    text = (ROOT / "docs" / "comparison.md").read_text()
    rows = [[cell.strip() for cell in row.split("|")] for row in re.findall(r"^\| (.*) \|$", text, re.M)]
    features = [cells for cells in rows if cells != PROJECTS]
    assert 40 <= len(features) <= 50
    assert len({feature for feature, *_ in features}) == len(features)
    for feature, *cells in features:
        assert len(cells) == 6, feature
        assert all(cells), feature
        assert "](" in cells[-1], feature
