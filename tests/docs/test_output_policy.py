"""The page on output scanners: its declarations load, and its rates are those of the code."""

from pathlib import Path
from typing import Any

import pytest

from interlock.config.sources import load
from interlock.model.policy.scanner import ScannerKind, ScannerSpec
from interlock.policy.scan import Scanners
from tests.docs.blocks import ROOT, of_language
from tools.scan_rates import DOCUMENT, document


@pytest.mark.behaviour("OUT-4")
def test_the_declarations_load(tmp_path: Path) -> None:
    (block,) = of_language("docs/output-policy.md", "yaml")
    (tmp_path / "policy.yaml").write_text(block.text)
    policy = load([str(tmp_path / "policy.yaml")]).policy
    assert policy is not None
    assert policy.output is not None
    assert {one.scanner for one in policy.output.document.scanners} == set(ScannerKind) - {ScannerKind.PYTHON}


@pytest.mark.behaviour("OUT-4")
def test_the_scanner_of_one_s_own_works() -> None:
    (block,) = of_language("docs/output-policy.md", "python")
    made: dict[str, Any] = {}
    exec(block.text, made)
    specs = [ScannerSpec(scanner="python", name="names", action="redact")]
    found = Scanners(specs, made["app"].scanners).scan(b'{"by": "Ada"}')
    assert found.redacted == b'{"by": "[redacted:name]"}'


def test_the_rates_are_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert document() == DOCUMENT.read_text(), "write it again with: python -m tools.scan_rates"
