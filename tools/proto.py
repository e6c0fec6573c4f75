"""Generate the stubs of the policy service from its `.proto` file: `python -m tools.proto`."""

import sys
from pathlib import Path

from grpc_tools import protoc

SOURCE = Path("src/interlock/policy_service/policy.proto")
STUBS = ("policy_pb2.py", "policy_pb2.pyi")


def generate(root: Path) -> list[Path]:
    """Write the stubs below `root`, in the folder of their package, and return them."""
    kinds = [f"--{kind}_out={root}" for kind in ("python", "pyi")]
    if protoc.main(["protoc", "--proto_path=src", *kinds, str(SOURCE)]):
        raise SystemExit(f"{SOURCE} has faults")
    return [root / "interlock" / "policy_service" / name for name in STUBS]


if __name__ == "__main__":
    for path in generate(Path("src")):
        sys.stdout.write(f"wrote {path}\n")
