"""All documents: their links lead somewhere, every example is of a kind that is run, the picture is harmless."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, blocks

DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
RUN = {
    "README.md": {"sh", "yaml"},
    "docs/agents.md": {"python", "sh", "yaml"},
    "docs/approvals.md": {"sh", "yaml"},
    "docs/audit.md": {"python", "sh"},
    "docs/cluster.md": {"yaml"},
    "docs/deploying.md": {"dockerfile", "ini", "sh", "yaml"},
    "docs/getting-started.md": {"python", "sh", "yaml"},
    "docs/guards.md": {"python", "yaml"},
    "docs/http.md": {"sh"},
    "docs/import.md": {"sh", "yaml"},
    "docs/job-files.md": {"python", "sh", "yaml"},
    "docs/jobs.md": {"python"},
    "docs/operations.md": {"sh", "yaml"},
    "docs/output-policy.md": {"python", "yaml"},
    "docs/pools.md": {"sh", "yaml"},
    "docs/policy-service.md": {"python", "sh", "yaml"},
    "docs/policy.md": {"yaml"},
    "docs/python.md": {"python"},
    "docs/remote-workers.md": {"sh", "yaml"},
    "docs/schedules.md": {"python", "sh", "yaml"},
    "docs/security.md": {"yaml"},
    "docs/services.md": {"python", "sh", "yaml"},
    "docs/sessions.md": {"python", "sh", "yaml"},
    "docs/streaming.md": {"python", "sh"},
    "docs/supervision.md": {"python"},
    "docs/tenants.md": {"yaml"},
    "docs/testing.md": {"python"},
    "docs/upgrading.md": {"sh"},
    "docs/workers.md": {"sh"},
    "docs/workflows.md": {"python", "sh", "yaml"},
}
"""document → the languages of its blocks that a test runs"""
SHOWN = {"console", "text", "json"}
"""what is only to be looked at"""


PICTURES = {
    "terminal.svg": ("$ interlock runs run job state age took what", "retrying"),
    "simulation.svg": ("What would run from Sat 27 Mar 2027", "1 · 1 waited", "missed"),
}
"""picture → words in it"""


def name_of(document: Path) -> str:
    return str(document.relative_to(ROOT))


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_example_is_run(document: Path) -> None:
    found = {block.language for block in blocks(name_of(document))} - SHOWN
    assert found == RUN.get(name_of(document), set())


def anchors(document: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_link_leads_somewhere(document: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", document.read_text()):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = document if not path else (document.parent / path).resolve()
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_fetches_nothing(name: str) -> None:
    text = (ROOT / "docs" / name).read_text()
    root = ElementTree.fromstring(text)
    assert {found.tag.rpartition("}")[2] for found in root.iter()} <= {"svg", "title", "style", "rect", "path", "text"}
    assert re.findall(r"https?:[^\"]*|url\(|@import|href", text) == ["http://www.w3.org/2000/svg"]
    words = " ".join("".join(found.itertext()) for found in root.iter() if found.tag.endswith("}text"))
    for expected in PICTURES[name]:
        assert expected in words
