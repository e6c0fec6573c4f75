"""Errors of services, their supervision and the policy service."""

from interlock.error.base import BadDefinition, Conflict, InterlockError, shown
from interlock.error.work import Unknown


class DuplicateService(BadDefinition, code="duplicate_service"):
    """Another service or group has this name."""

    def __init__(self, name: str, first: str, second: str) -> None:
        super().__init__(f"service: {name!r} is defined twice, at {first} and at {second}")


class UnknownChild(Unknown, code="unknown_child"):
    """No service or group has this name; a close one is suggested."""

    text = "name: {} is not in the tree"


class DuplicateChild(InterlockError, code="duplicate_child"):
    """The supervisor already has a child of this name."""

    def __init__(self, name: str, supervisor: str) -> None:
        super().__init__(f"name: {supervisor} already has a child {shown(name)}")


class CannotStart(InterlockError, code="cannot_start"):
    """A child of a supervisor could not be started."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: could not be started ({why})")
        self.path, self.why = path, why


class WrongStatus(Conflict, code="wrong_status"):
    """The status of the service or worker does not allow this, such as suspending a service that is not up."""


class NoContainerEngine(InterlockError, code="no_container_engine"):
    """No container engine answers."""


class PolicyUnavailable(InterlockError, code="policy_unavailable"):
    """The policy service gives no verdict."""

    def __init__(self, why: str) -> None:
        super().__init__(f"policy service: {why}")
        self.why = why


class PolicyClosed(PolicyUnavailable):
    """The scheduler stops asking. No fail mode applies."""

    def __init__(self) -> None:
        super().__init__("the scheduler stops")
