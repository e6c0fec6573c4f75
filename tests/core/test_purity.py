"""The core asks nobody what time it is, rolls no dice of its own and waits for nothing."""

import re
from pathlib import Path

import pytest

import interlock

SOURCE = Path(interlock.__file__).parent
FORBIDDEN = re.compile(r"\bawait\b|asyncio|\btime\.\w|\brandom\.\w|\b(datetime|date)\.(now|utcnow|today)\b")
PURE = [name for name in ("model", "core", "policy") if (SOURCE / name).is_dir()]


def test_the_pure_packages_are_there() -> None:
    assert PURE[:2] == ["model", "core"]


@pytest.mark.parametrize("package", PURE)
def test_no_clock_no_randomness_and_no_waiting(package: str) -> None:
    files = sorted((SOURCE / package).rglob("*.py"))
    assert files
    found = [
        f"{path.relative_to(SOURCE)}:{number}: {line.strip()}"
        for path in files
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if FORBIDDEN.search(line)
    ]
    assert found == []
