"""The request that sends an event to a workflow."""

from typing import ClassVar

from interlock.model.access import Permission
from interlock.model.bulk import ActedOn
from interlock.wire.message import Problem
from interlock.wire.request import ChangeRequest


class SendEvent(ChangeRequest[ActedOn], frozen=True):
    """Send an event to a run of a workflow: by its id, or by workflow, tenant and idempotency key."""

    name: str
    value: bytes  # JSON
    run_id: str = ""
    workflow: str = ""
    tenant: str = "default"
    key: str = ""  # of the run
    start: bytes | None = None  # payload of a run to start if none has the key, empty for its own; None for no run
    fault: Problem | None = None  # why no run may start with it
    own_key: str = ""  # makes the event safe to repeat
    actor: str = ""
    parent: str = ""  # claim of the attempt whose code sends it

    permission: ClassVar = Permission.SUBMIT

    @property
    def repeatable(self) -> bool:
        return bool(self.own_key)
