"""ARCHITECTURE.md is short enough to read at once. It, and the docstrings of modules, name files that exist."""

import ast
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


def test_every_file_that_a_docstring_names_exists() -> None:
    missing = []
    for module in SOURCE.rglob("*.py"):
        named = re.findall(r"`([\w/]+\.py)(?:: \w+)?`", ast.get_docstring(ast.parse(module.read_text())) or "")
        folders = (module.parent, SOURCE, ROOT)
        missing += [(module, name) for name in named if not any((folder / name).exists() for folder in folders)]
    assert missing == []
