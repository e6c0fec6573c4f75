"""The index has every page, and a new reader finds there what people look for first."""

import re

import pytest

from tests.docs.blocks import ROOT

INDEX = (ROOT / "docs" / "README.md").read_text()


def test_every_page_is_listed() -> None:
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")} - {"README.md"}
    listed = set(re.findall(r"\]\(([^)#]+\.md)", INDEX))
    assert pages - listed == set()


@pytest.mark.parametrize(
    ("task", "page"),
    [
        ("deploy it", "deploying.md"),
        ("upgrade it", "upgrading.md"),
        ("back it up", "operations.md#backup-and-restore"),
        ("stream output", "streaming.md"),
        ("approve a run", "approvals.md"),
        ("test with a policy", "testing.md#policies-approvals-and-tenants"),
        ("limit a customer", "tenants.md"),
    ],
)
def test_a_reader_finds(task: str, page: str) -> None:
    (row,) = re.findall(rf"^\| {task}.*$", INDEX, re.M)
    assert f"]({page})" in row


def test_the_glossary_is_in_order_and_says_each_word_once() -> None:
    words = re.findall(r"^\| \*\*(.*?)\*\* \|", (ROOT / "docs" / "glossary.md").read_text(), re.M)
    assert words == sorted(set(words))
    assert {"lane", "topic", "facet", "fence", "session", "run", "attempt", "lease", "verdict"} <= set(words)
