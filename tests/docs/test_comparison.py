"""The comparison: each row says something of every project, and links ours to where it is shown."""

import re
from pathlib import Path

from tests.docs.blocks import ROOT

PROJECTS = ["", "Celery", "APScheduler", "Prefect", "Temporal", "Procrastinate", "Interlock"]
LINK = re.compile(r"\]\(([^)#]+)#?([^)]*)\)")


def test_every_row_is_complete_and_linked() -> None:
    text = (ROOT / "docs" / "comparison.md").read_text()
    rows = [[cell.strip() for cell in row.split("|")] for row in re.findall(r"^\| (.*) \|$", text, re.M)]
    features = [cells for cells in rows if cells != PROJECTS]
    assert 40 <= len(features) <= 50
    assert len({feature for feature, *_ in features}) == len(features)
    for feature, *cells in features:
        assert len(cells) == 6, feature
        assert all(cells), feature
        links = LINK.findall(cells[-1])
        assert links, feature
        for file, anchor in links:
            page = (ROOT / "docs" / file).resolve()
            assert page.is_file(), (feature, file)
            assert not anchor or anchor in anchors(page), (feature, file, anchor)


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub makes them; lines of examples are none."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_an_anchor_without_its_heading_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Jobs, in files\n```sh\n# no heading\n```\n## `run` at once\n")
    assert anchors(page) == {"jobs-in-files", "run-at-once"}
