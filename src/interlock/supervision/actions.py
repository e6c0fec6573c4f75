"""Actions on one child, requested by hand: start, stop, restart, suspend, resume."""

from interlock.model.child_info import UP, ServiceAction, Status
from interlock.model.error import WrongStatus
from interlock.supervision.child import ChildRunner


def check_possible(child: ChildRunner, action: ServiceAction) -> None:
    if child.removal is not None:
        raise WrongStatus(f"{child.path}: cannot {action.value} while it is being removed")
    if child.status in (*UP, Status.STARTING, Status.PENDING, Status.STOPPING):
        return
    if action is ServiceAction.SUSPEND:
        raise _cannot_suspend(child)
    if action is ServiceAction.RESUME:
        raise WrongStatus(f"{child.path}: cannot be resumed while it is {child.status}")


async def act(child: ChildRunner, action: ServiceAction, suspended: bool) -> None:
    """`suspended` tells whether its supervisor is suspended, and so the children that it starts."""
    if action is ServiceAction.SUSPEND:
        if not await child.suspend():
            raise _cannot_suspend(child)
    elif action is ServiceAction.RESUME:
        await child.resume()
    else:
        await _start_or_stop(child, action, suspended)


async def _start_or_stop(child: ChildRunner, action: ServiceAction, suspended: bool) -> None:
    """The latest request counts, even if an earlier one is carried out after it."""
    request = child.request = object()
    if action is not ServiceAction.START:
        child.held = True
        await child.down()
        if child.status is Status.CREATED:
            # Its turn to start has not come yet, and never will.
            child.become(Status.STOPPED)
    if action is ServiceAction.STOP or child.request is not request or child.removal is not None:
        return
    child.held = False
    child.renew()
    if child.status not in UP:
        child.to_be_suspended = suspended
        if child.nested is not None:
            child.nested.forget_requests()
    if child.status is Status.PENDING:
        child.lower()
    await child.up()


def _cannot_suspend(child: ChildRunner) -> WrongStatus:
    return WrongStatus(f"{child.path}: cannot be suspended: it is a {child.spec.kind} and {child.status}")
