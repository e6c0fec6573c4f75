"""Requests of approvers: the answer to an approval, and the release of a quarantined output."""

from typing import ClassVar

from interlock.model.access import Permission
from interlock.wire.request import ChangeRequest, StateReport


class Resolve(ChangeRequest[StateReport], frozen=True):
    """Approve or reject a run that waits for it."""

    run_id: str
    approve: bool
    reason: str = ""
    actor: str = ""
    seen: str = ""  # `facets.seen` of what the approver has seen; anything else is refused as stale
    parent: str = ""  # claim of the attempt whose code asks for it

    permission: ClassVar = Permission.APPROVE
    once: ClassVar = True


class ReleaseOutput(ChangeRequest[StateReport], frozen=True):
    """Hand out the quarantined output of a run."""

    run_id: str
    reason: str = ""
    actor: str = ""

    permission: ClassVar = Permission.APPROVE
