"""The documents are true: listed behaviours have tests, and the examples of writing jobs run."""

import re
import subprocess
import sys
from pathlib import Path

from tools.contract_numbers import faults

ROOT = Path(__file__).resolve().parent.parent
ID = r"[A-Z]{3}-\d+"


def listed() -> set[str]:
    return set(re.findall(rf"^\| ({ID}) \|", (ROOT / "docs" / "behaviours.md").read_text(), re.M))


def carried() -> set[str]:
    found = set()
    for path in (ROOT / "tests").rglob("*.py"):
        for call in re.findall(r"behaviour\(([^)]*)\)", path.read_text()):
            found.update(re.findall(ID, call))
    return found


def test_every_listed_behaviour_is_carried_by_a_test() -> None:
    assert listed()
    assert listed() - carried() == set()


def test_every_behaviour_a_test_carries_is_listed() -> None:
    assert carried() - listed() == set()


def test_every_change_to_a_number_of_the_contract_can_still_be_made() -> None:
    assert faults() == []


def blocks(document: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (ROOT / document).read_text(), re.M | re.S)


def run(program: str, folder: Path) -> str:
    script = folder / "jobs.py"
    script.write_text(program)
    done = subprocess.run(
        [sys.executable, script.name], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_examples_of_writing_jobs_run(tmp_path: Path) -> None:
    main = """
async def main() -> None:
    async with app.running("jobs.db"):
        await use(app)


if __name__ == "__main__":
    import asyncio

    asyncio.run(main())
"""
    output = run("\n".join(blocks("docs/jobs.md")) + main, tmp_path)
    assert output.split() == ["2030-03-01", "prerun", "cancelled"]
