"""Print the files of the package that commits created and edited: `python -m tools.footprint COMMIT...`

ARCHITECTURE.md counts by it. Tests, documents and generated files do not count.
"""

import subprocess
import sys

GENERATED = ("src/interlock/policy_service/policy_pb2",)
KINDS = {"A": "created", "M": "edited", "D": "removed"}


def files(commit: str) -> list[tuple[str, str]]:
    """Return what a commit did to each file of the package; a file that it moved counts as edited."""
    changes = [line.split("\t") for line in _git(commit, "--format=", "--name-status", "--", "src").splitlines()]
    return [(KINDS.get(kind[0], "edited"), path[-1]) for kind, *path in changes if not path[-1].startswith(GENERATED)]


def report(commit: str) -> str:
    found = files(commit)
    head = f"{_git(commit, '-s', '--format=%h %s').strip()}: {len(found)} file{'s' * (len(found) != 1)}"
    return "\n".join([head, *(f"  {kind} {path}" for kind, path in found)])


def _git(commit: str, *options: str) -> str:
    return subprocess.run(["git", "show", commit, *options], capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.stdout.write("\n".join(map(report, sys.argv[1:])) + "\n")
