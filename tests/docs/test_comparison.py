"""The comparison: each row says something of every project, and links ours to where it is shown."""

import re

from tests.docs.blocks import ROOT


def test_every_row_is_complete_and_linked() -> None:
    text = (ROOT / "docs" / "comparison.md").read_text()
    heads = re.findall(r"^\| \| (Celery .*) \|$", text, re.M)
    assert set(heads) == {"Celery | APScheduler | Prefect | Temporal | Procrastinate | Interlock"}
    rows = re.findall(r"^\| ([^|\n]+?.*) \|$", text, re.M)
    rows = [row for row in rows if row not in heads]
    features = [[cell.strip() for cell in row.split("|")] for row in rows if not row.startswith("Celery")]
    features = [cells for cells in features if cells[0]]
    assert 35 <= len(features) <= 55
    assert len({cells[0] for cells in features}) == len(features)
    for cells in features:
        assert len(cells) == 7, cells[0]
        assert all(cells), cells[0]
        assert "](" in cells[-1], cells[0]
