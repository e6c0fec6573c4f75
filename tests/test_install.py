"""What `make run` installs: requirements-run.txt names every package that a plain install needs, and no other."""

from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

from bench.footprint import closure

ROOT = Path(__file__).parents[1]
BUILD = ("hatchling", "editables")  # install the sources


def test_the_packages_to_run_are_those_of_the_lock() -> None:
    given = map(Requirement, distribution("interlock").requires or ())
    policy = [one.name for one in given if one.marker is not None and one.marker.evaluate({"extra": "policy"})]
    wanted = set().union(*(closure(name) for name in ("interlock", *policy, *BUILD))) - {"interlock"}
    named = (ROOT / "requirements-run.txt").read_text().splitlines()
    assert named == sorted(wanted)
    locked = (ROOT / "requirements.lock").read_text().splitlines()
    assert wanted <= {line.partition("==")[0] for line in locked if line[:1].isalpha()}
