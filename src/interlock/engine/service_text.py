"""The text for a change of a service."""

from interlock.model.child_info import Change, ChildInfo, Exit, Status
from interlock.model.duration import brief


def in_words(change: Change) -> str:
    before, after = change.before, change.after
    if after is None:
        return "removed"
    if before is None:
        return "added"
    parts = [_stands(after, change.at)]
    if after.last_exit is not None and after.last_exit != before.last_exit:
        parts.insert(0, _ended(after.last_exit))
    elif after.reason and not after.exhausted and after.status is not Status.PENDING:
        parts.append(after.reason)
    return "; ".join(parts)


def _ended(exit: Exit) -> str:
    if exit.code is not None:
        return f"ended with {exit}"
    return f"ended by {exit}" if exit.signal is not None else f"ended: {exit}"


def _stands(child: ChildInfo, at: float) -> str:
    if child.status is Status.PENDING and child.next_try_at is not None:
        return f"next try in {brief(max(0.0, child.next_try_at - at))}"
    if child.exhausted:
        return f"given up after {child.restarts} {'restart' if child.restarts == 1 else 'restarts'}"
    if child.status in (Status.STARTING, Status.RUNNING) and child.pid is not None:
        return f"{child.status} (pid {child.pid})"
    return child.status.value
