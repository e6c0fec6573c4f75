"""Write the rates of the scanners into docs/output-policy.md: `python -m tools.scan_rates`.

They are measured on the corpus of the tests. The prose around the two marks stays."""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from interlock.model.scanner import ScannerSpec
from interlock.policy.scan import compile_scanners
from tests.policy.corpus import look_alikes, samples

DOCUMENT = Path("docs/output-policy.md")
BEGIN = "<!-- From here written by `python -m tools.scan_rates`; do not edit it by hand. -->"
END = "<!-- Up to here. -->"
ALL = compile_scanners(ScannerSpec(scanner=one) for one in ("secrets", "personal_data", "prompt_injection"))

Rates = dict[str, tuple[int, int]]
"""kind → findings, samples"""


def rates() -> tuple[Rates, Rates]:
    """Return how many samples are found, and how many look-alikes are taken for something."""
    found, total, wrong, alike = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for kind, _, text in samples():
        total[kind] += 1
        found[kind] += kind in {one.kind for one in ALL.scan(json.dumps({"text": text}).encode()).findings}
    for kind, _, text in look_alikes():
        alike[kind] += 1
        wrong[kind] += bool(ALL.scan(json.dumps({"text": text}).encode()).findings)
    return {one: (found[one], total[one]) for one in total}, {one: (wrong[one], alike[one]) for one in alike}


def table() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    found, wrong = rates()
    yield "| kind | found | of |\n|---|---|---|"
    yield from (f"| `{kind}` | {hits} | {total} |" for kind, (hits, total) in found.items())
    yield "\n| look-alike | taken for a finding | of |\n|---|---|---|"
    yield from (f"| {kind} | {hits} | {total} |" for kind, (hits, total) in wrong.items())


def document() -> str:
    before, begin, rest = DOCUMENT.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{DOCUMENT}: the marks are missing:\n{BEGIN}\n{END}")
    return f"{before}{BEGIN}\n\n{table()}\n{END}{after}"


if __name__ == "__main__":
    DOCUMENT.write_text(document())
    sys.stdout.write(f"wrote {DOCUMENT}\n")
