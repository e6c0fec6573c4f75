"""The page on output scanners: its declarations load, and its rates are those of the code."""

from pathlib import Path

import pytest

from interlock.model.scanner import ScannerKind
from interlock.policy.scan import compile_scanners
from tests.docs.blocks import ROOT, of_language
from tests.policy.test_scan_specs import loaded
from tools.scan_rates import DOCUMENT, document


@pytest.mark.behaviour("OUT-4")
def test_the_declarations_load(tmp_path: Path) -> None:
    (block,) = of_language("docs/output-policy.md", "yaml")
    found = loaded(f"kind: Policy\n{block.text}", tmp_path)
    assert {one.scanner for one in found} == set(ScannerKind) - {ScannerKind.PYTHON}
    compile_scanners(found)


def test_the_rates_are_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert document() == DOCUMENT.read_text(), "write it again with: python -m tools.scan_rates"
