"""The policy as a service over gRPC, and the client that a scheduler asks it with. Both need `interlock[grpc]`."""

import os
from importlib.util import find_spec

from interlock.error import MissingLibrary


def prepare_grpc(field: str) -> None:
    """Call this before gRPC is imported. Raise unless it is installed; `field` asks for it."""
    if not all(find_spec(name) for name in ("grpc", "google", "grpc_health", "grpc_reflection")):
        raise MissingLibrary(field, "gRPC", "grpc")
    # It would write about lost connections to standard error; our own log has them.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # A process that is forked uses gRPC no more; it must not start the threads of its parent again.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
