"""Failures: runs that ended without success, by job and by what went wrong."""

import re
from collections.abc import Iterable
from typing import Annotated

import msgspec

from interlock.fields.field import doc
from interlock.fields.json_form import Time
from interlock.model.run import Run
from interlock.model.state import State

FAILED = frozenset({State.FAILED, State.TIMEOUT, State.ORPHANED, State.DENIED, State.OUTPUT_QUARANTINED})
LONGEST = 200  # characters of an error
_NUMBER = re.compile(
    r"0x[0-9a-f]+|\b(?=[0-9a-f-]*[0-9])[0-9a-f]{8,}(?:-[0-9a-f]+)*\b|[0-9]+(?:[.,:][0-9]+)*", re.IGNORECASE
)


class FailureGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of a job that failed in the same way."""

    job: Annotated[str, doc("Job.")]
    error: Annotated[str, doc("Last line of the error, or else the reason, with `#` in place of numbers.")]
    count: Annotated[int, doc("Runs.")]
    states: Annotated[dict[str, int], doc("Runs by state.")]
    newest: Annotated[Time, doc("End of the newest run.")]
    oldest: Annotated[Time, doc("End of the oldest run.")]
    run: Annotated[str, doc("The newest run.")]


class FailureList(msgspec.Struct, frozen=True, kw_only=True):
    """Failed runs in groups."""

    failures: Annotated[list[FailureGroup], doc("Groups, the largest first.")]
    runs: Annotated[int, doc("Runs in all of these groups.")]
    reached: Annotated[Time | None, doc("Creation of the oldest run looked at; null if all were looked at.")]


def error_of(run: Run) -> str:
    """Return what went wrong, in a form that is the same for runs which differ in numbers."""
    text = (run.error or "").strip().rpartition("\n")[2].strip() or run.reason
    return _NUMBER.sub("#", text[: 4 * LONGEST])[:LONGEST]


def grouped(runs: Iterable[Run]) -> list[FailureGroup]:
    """Return the groups of these runs, the largest first."""
    found: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        found.setdefault((run.job_id, error_of(run)), []).append(run)
    groups = []
    for (job, error), members in found.items():
        newest = max(members, key=lambda run: (run.ended_at or 0.0, run.id))
        states: dict[str, int] = {}
        for run in members:
            states[run.state.value] = states.get(run.state.value, 0) + 1
        groups.append(
            FailureGroup(
                job=job,
                error=error,
                count=len(members),
                states=states,
                newest=newest.ended_at or 0.0,
                oldest=min(run.ended_at or 0.0 for run in members),
                run=newest.id,
            )
        )
    return sorted(groups, key=lambda group: (-group.count, -group.newest))
