"""The policy service, connected to the engine."""

import os
from typing import TYPE_CHECKING

from interlock.config import Settings
from interlock.engine.engine import Engine
from interlock.policy_service import prepare_grpc
from interlock.policy_service.access import Access
from interlock.wire.command import PolicyMoved

if TYPE_CHECKING:
    from interlock.policy_service.client import RemotePolicy


def remote_policy(settings: Settings, engine: Engine) -> "RemotePolicy | None":
    """Let the engine ask the policy service, if one is set. This needs a running loop."""
    if settings.policy_service is None:
        return None
    prepare_grpc("policy_service")
    # gRPC is loaded only where it is used: it takes long.
    from interlock.policy_service.client import RemotePolicy

    access = Access.of(os.environ)
    remote = RemotePolicy(settings.policy_service, access, lambda digest: engine.post("", PolicyMoved(digest)))
    engine.effects.check = remote.check
    engine.metrics.circuit_state = lambda: remote.circuit.level
    return remote
