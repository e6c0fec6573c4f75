"""Check jobs: read what their runs have found."""

import msgspec

from interlock.model.run import Run
from interlock.model.state import State

LONGEST_MESSAGE = 500


def result_of(run: Run) -> tuple[str, str]:
    """Return the violation that a check found, or why it could not check."""
    if run.state is not State.SUCCEEDED:
        return "", f"run {run.id} ended as {run.state} ({run.reason})"
    found = None if run.result is None else msgspec.json.decode(run.result)
    if found is None or isinstance(found, bool):
        return "" if found in (None, True) else "the check returned false", ""
    if isinstance(found, str):
        return found[:LONGEST_MESSAGE], ""
    return "", f"run {run.id} returned {str(found)[:100]}; a check must return true, false, null or a string"
