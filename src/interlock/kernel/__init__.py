"""The policy as a service over gRPC, and the client that a scheduler asks it with. Both need `interlock[grpc]`."""

from importlib.util import find_spec

from interlock.model.error import NeedsExtra


def check_installed(field: str) -> None:
    """Raise unless the packages of the extra are installed; `field` asks for them."""
    if not all(find_spec(name) for name in ("grpc", "google", "grpc_health", "grpc_reflection")):
        raise NeedsExtra(field, "grpc")
