"""Write the rates of the scanners into docs/output-policy.md: `python -m tools.scan_rates`.

They are measured on the corpus of the tests. The prose around the two marks stays."""

import json
import sys
from collections import Counter
from pathlib import Path

from interlock.model.policy.output import Finding
from interlock.model.policy.scanner import ScannerKind, ScannerSpec
from interlock.policy.scan import Scanners
from tests.policy.corpus import PERSONAL_DATA, PHRASES, SECRETS, look_alikes, samples

DOCUMENT = Path("docs/output-policy.md")
BEGIN = "<!-- From here written by `python -m tools.scan_rates`; do not edit it by hand. -->"
END = "<!-- Up to here. -->"

K = ScannerKind
SCANNERS = {K.SECRETS: list(SECRETS), K.PERSONAL_DATA: list(PERSONAL_DATA), K.PROMPT_INJECTION: list(PHRASES)}
ALL = Scanners(ScannerSpec(scanner=one) for one in SCANNERS)


def rates() -> tuple[Counter[str], Counter[str], Counter[str], int]:
    """Return the findings and the samples of each kind, the false positives of each scanner, and the look-alikes."""
    found, total, wrong, alike = Counter[str](), Counter[str](), Counter[str](), list(look_alikes())
    for kind, _, text in samples():
        total[kind] += 1
        found[kind] += kind in {one.kind for one in _findings(text)}
    for _, _, text in alike:
        wrong.update({one.scanner for one in _findings(text)})
    return found, total, wrong, len(alike)


def _findings(text: str) -> tuple[Finding, ...]:
    return ALL.scan(json.dumps({"text": text}).encode()).findings


def table() -> str:
    found, total, wrong, alike = rates()
    lines = ["| scanner | kinds | samples | found | look-alikes | false positives |", "|---|---|---|---|---|---|"]
    for scanner, kinds in SCANNERS.items():
        hits, count = (sum(counter[kind] for kind in kinds) for counter in (found, total))
        rate, false = hits / count, wrong[scanner] / alike
        lines.append(f"| `{scanner}` | {len(kinds)} | {count} | {rate:.1%} | {alike} | {false:.1%} |")
    return "\n".join(lines) + "\n"


def document() -> str:
    before, begin, rest = DOCUMENT.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{DOCUMENT}: the marks are missing:\n{BEGIN}\n{END}")
    return f"{before}{BEGIN}\n\n{table()}\n{END}{after}"


if __name__ == "__main__":
    DOCUMENT.write_text(document())
    sys.stdout.write(f"wrote {DOCUMENT}\n")
