"""Searches of the store in memory, which look at every row where SQLite has an index."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter

import msgspec
from msgspec.structs import replace

from interlock.core.workflows.flow import EndedStep, left_to_undo
from interlock.model.run import CATCH_UP, SCHEDULE, Run
from interlock.model.session_info import SessionEvent
from interlock.model.state import State
from interlock.ports import store as port
from interlock.wire.message import CHUNKS


def fits(wanted: port.EventFilter, one: port.StoredEvent | port.ServiceEntry) -> bool:
    if isinstance(one, port.ServiceEntry):
        if wanted.service is None and (violation := one.violation) is not None:
            return wanted.job_id in (None, violation.job_id) and wanted.tenant in (None, violation.tenant)
        if wanted.of_tenant is not None:
            return one.service == SessionEvent.LOGS + wanted.of_tenant
        return wanted.job_id is wanted.tenant is None and wanted.service in (None, one.service)
    return wanted.job_id in (None, one.job_id) and wanted.tenant in (None, one.tenant) and wanted.service is None


def size_of(one: port.StoredEvent | port.ServiceEntry) -> int:
    if isinstance(one, port.ServiceEntry):
        return len(one.text.encode()) + (0 if one.change is None else len(msgspec.json.encode(one.change)))
    return 100 * len(one.transitions) if one.line is None else len(one.line.text)


def copy_event(event: port.StoredEvent | port.ServiceEntry) -> port.StoredEvent | port.ServiceEntry:
    """Return an event that the store does not share with its reader."""
    if isinstance(event, port.ServiceEntry):
        return event
    return replace(event, transitions=list(event.transitions))


def is_passed_over(wanted: port.RunFilter, run: Run) -> bool:
    """Whether an index would leave the run out, so that it does not count as looked at."""
    if wanted.parent is not None:
        return run.parent != wanted.parent
    if wanted.root is not None:
        return run.root != wanted.root
    if wanted.only_live:
        return run.ended_at is not None
    if wanted.job_id is not None and not wanted.only_unsuccessful:
        return run.job_id != wanted.job_id
    return wanted.only_unsuccessful and (run.ended_at is None or run.state is State.SUCCEEDED)


def size_of_log(lines: Mapping[tuple[int, int], port.LogEntry]) -> tuple[int, int, bool]:
    """Return the entry of `Snapshot.log_sizes` for a run with these lines, by attempt and number."""
    size = sum(len(line.text.encode()) for line in lines.values())
    return len(lines), size, min(number for _, number in lines) < 0


def mark_of(run: Run, lines: Iterable[tuple[int, int]]) -> tuple[int, int] | None:
    """Return the entry of `Snapshot.log_marks` for a run."""
    numbers = [number for attempt, number in lines if attempt == run.attempt and number > 0]
    return (run.attempt, len(numbers)) if numbers and max(numbers) == len(numbers) else None


def prunable(runs: Sequence[Run], kept: set[str], limits: port.PruneLimits) -> list[Run]:
    """Return the runs to prune, oldest first, without those that are kept."""
    ended = [(run, run.ended_at) for run in runs if run.ended_at is not None]
    left = Counter(run.job_id for run, _ in ended if "@" not in run.id)
    found: set[str] = set()
    others: list[Run] = []
    for run, ended_at in ended:
        if "@" in run.id or (run.origin in (SCHEDULE, CATCH_UP) and run.created_at >= limits.occurrences_before):
            kept.add(run.id)
        if run.id not in kept and (left[run.job_id] > limits.most or ended_at < limits.ended_before):
            found.add(run.id)
        else:
            others.append(run)
        left[run.job_id] -= "@" not in run.id
    found.update(run.id for run in others[: max(0, len(others) - limits.total)] if run.id not in kept)
    return [run for run in runs if run.id in found]


def previous_run(runs: Iterable[Run], run: Run) -> tuple[str, State, bool] | None:
    """Return the last run of the same job and tenant before this one that has begun, or is due and has not ended."""
    previous = None
    for other in runs:  # in the order of their creation
        if other is run:
            break
        is_due = other.started_at is not None or (other.ended_at is None and other.state is not State.PRERUN)
        if (other.job_id, other.tenant) == (run.job_id, run.tenant) and is_due:
            previous = other
    return None if previous is None else (previous.id, previous.state, previous.ended_at is not None)


def ended_steps(runs: Iterable[Run], parent: str) -> list[EndedStep]:
    return [EndedStep.of(run) for run in runs if run.parent == parent and run.ended_at is not None]


def saga(runs: Iterable[Run], above: str) -> list[str]:
    below = f"{above}@"
    return left_to_undo(above, ((run.id, run.facets) for run in runs if run.id.startswith(below)))


def latest_times(runs: Iterable[Run], job_ids: Collection[str], after: float) -> dict[str, float]:
    later = [run for run in runs if run.job_id in job_ids and run.scheduled_at > after] if job_ids else []
    return {run.job_id: run.scheduled_at for run in sorted(later, key=attrgetter("scheduled_at"))}


def first_times(runs: Iterable[Run], job_ids: Collection[str]) -> dict[str, float]:
    times: dict[str, float] = {}
    for run in runs if job_ids else ():
        if run.job_id in job_ids and run.tenant == "default" and run.origin in (SCHEDULE, CATCH_UP):
            times.setdefault(run.job_id, run.scheduled_at)
    return times


def unscanned(run: Run, held: Mapping[tuple[int, int], port.LogEntry]) -> port.Unscanned:
    """Return what a scanner reads of a run with these lines, by attempt and number."""
    names = sorted({name for line in held.values() for name in (line.level, line.logger)})
    lines = [(*key, line.text) for key, line in held.items()]
    return port.Unscanned(run.id, run.result, lines, names, [key for key in held if held[key].level == CHUNKS])


def prune_lines(logs: Iterable[dict[int, port.ServiceEntry]], limits: port.PruneLimits, highest: int) -> set[int]:
    """Drop the oldest rows of each service that exceed a limit; return their positions."""
    pruned: set[int] = set()
    for rows in logs:
        size = sum(map(size_of, rows.values()))
        for number, entry in list(rows.items()):
            fits_now = len(rows) <= limits.log_lines and size <= limits.log_bytes
            if fits_now or len(pruned) == port.MOST_PRUNED or entry.position == highest:
                break
            size -= size_of(entry)
            pruned.add(entry.position)
            del rows[number]
    return pruned
