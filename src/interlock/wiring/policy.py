"""The policy service, if one is set."""

import os
from typing import TYPE_CHECKING

from interlock.config import Settings
from interlock.engine.inbox import Inbox
from interlock.policy_service import prepare_grpc
from interlock.policy_service.access import Access
from interlock.wire.command import PolicyMoved

if TYPE_CHECKING:
    from interlock.policy_service.client import RemotePolicy


def remote_policy(settings: Settings, inbox: Inbox) -> "RemotePolicy | None":
    """Return the policy service that the engine asks. It tells the engine when its policy has changed."""
    if settings.policy_service is None:
        return None
    prepare_grpc("policy_service")
    # gRPC is loaded only where it is used: it takes long.
    from interlock.policy_service.client import RemotePolicy

    access = Access.of(os.environ)
    return RemotePolicy(settings.policy_service, access, lambda digest: inbox.post("", PolicyMoved(digest)))
