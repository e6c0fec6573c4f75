"""ARCHITECTURE.md is short enough to read at once, and names files that exist."""

import re

from tests.docs.blocks import ROOT

SOURCE = ROOT / "src" / "interlock"
TEXT = (ROOT / "ARCHITECTURE.md").read_text()
MOST = 12 * 1024


def test_it_is_short() -> None:
    assert len(TEXT.encode()) <= MOST


def test_every_named_file_exists() -> None:
    names = {name for name in re.findall(r"`([a-z_]+/[a-z_/]*(?:\.py|\.md)?)`", TEXT) if "NAME" not in name}
    assert len(names) > 50
    missing = [name for name in sorted(names) if not any((folder / name).exists() for folder in (ROOT, SOURCE))]
    assert missing == []
