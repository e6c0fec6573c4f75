"""The invariants, and how often each was broken. Executions are those that the executors noted, not those on record."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from interlock.model.run import Transition
from interlock.model.state import ALLOWED, TERMINAL, State
from soak.simulation.history import replay
from tests.chaos.faults import Cut
from tests.chaos.load import PASSING, Load
from tests.chaos.people import People
from tests.chaos.promises import Execution, Row, check_promises
from tests.chaos.record import Record, Run

SCHEDULED = ("tick", "beat")
MAX_CRASHES = 3
CERTAIN = 0.05
"""seconds after the noted end of a run from which a begin counts as late: notes of programs are that coarse"""


def read_executions(folder: Path) -> list[Execution]:
    found: list[Execution] = []
    for path in folder.iterdir():
        begun: dict[tuple[str, str], int] = {}
        for line in path.read_text().splitlines():
            what, run_id, attempt, at, host, alone = line.split()
            if what == "begin":
                begun[run_id, attempt] = len(found)
                found.append(Execution(run_id, int(attempt), float(at), int(host), alone == "1", None))
            else:
                place = begun[run_id, attempt]
                found[place] = found[place]._replace(end=float(at))
    return sorted(found, key=lambda one: one.begin)


def check(
    load: Load, record: Record, executions: list[Execution], cuts: list[Cut], people: People, told: set[str]
) -> Iterator[Row]:
    pruned, kept = record.runs(is_pruned=True), record.runs(is_pruned=False)
    histories = record.histories()
    runs: dict[str, list[Run]] = defaultdict(list)
    for run in pruned + kept:
        runs[run.id].append(run)
    yield from _check_record(load, runs, histories)
    yield Row("only runs that have ended are pruned", len(pruned), [run.id for run in pruned if run.ended_at is None])
    yield from _check_executions(executions, runs, histories, record.ended)
    yield from _check_overlaps(executions, cuts)
    yield _check_keys(load, pruned + kept)
    yield from _check_schedules(pruned + kept)
    for kind, overfull in record.overfull.items():
        yield Row(f"no {kind} had more than its limit at any look", len(record.looks), overfull)
    yield from check_promises(pruned + kept, record.looks, executions, people, told)
    yield Row("the database is intact", 1, record.database.damage())
    refused = load.refused + people.refused
    codes = [f"{count} × {code}" for code, count in refused.items() if code not in PASSING]
    yield Row("clients were refused only what was away", refused.total(), codes)


def _check_record(load: Load, runs: dict[str, list[Run]], histories: dict[str, list[Transition]]) -> Iterator[Row]:
    acknowledged = load.acknowledged
    yield Row(
        "every acknowledged run is on record", len(acknowledged), [one for one in acknowledged if one not in runs]
    )
    ends = {run_id: sum(entry.after in TERMINAL for entry in history) for run_id, history in histories.items()}
    wrong = [one for one in acknowledged if one in runs and not ends.get(one)]
    wrong += [one for one, rows in runs.items() if ends.get(one, 0) > len(rows)]
    yield Row("each ended exactly once", len(acknowledged), wrong)
    broken = [one for one, rows in runs.items() if len(rows) == 1 and _is_broken(rows[0], histories.get(one, []))]
    yield Row("its history replays to its state", len(runs), broken)
    crashed = [one for one, rows in runs.items() if any(run.crashes > MAX_CRASHES for run in rows)]
    yield Row("at most max_crashes", len(runs), crashed)


def _is_broken(run: Run, history: list[Transition]) -> bool:
    try:
        state = replay(history)
    except ValueError:
        return True
    allowed = all(entry.before is None or entry.after in ALLOWED[entry.before] for entry in history)
    return state != run.state or not allowed or (run.ended_at is not None) != (state in TERMINAL)


def _check_executions(
    executions: list[Execution],
    runs: dict[str, list[Run]],
    histories: dict[str, list[Transition]],
    ended: dict[str, float],
) -> Iterator[Row]:
    times = Counter(map(str, executions))
    yield Row("no attempt was begun twice", len(executions), [one for one, count in times.items() if count > 1])
    late = [str(one) for one in executions if one.begin > ended.get(one.run_id, one.begin) + CERTAIN]
    yield Row("no run was begun after its end", len(executions), late)
    unknown = [
        str(one)
        for one in executions
        if all(run.attempt < one.attempt for run in runs.get(one.run_id, ()))
        or not any(
            entry.after is State.DISPATCHED and entry.attempt == one.attempt for entry in histories.get(one.run_id, ())
        )
    ]
    yield Row("every execution is on record", len(executions), unknown)


def _check_overlaps(executions: list[Execution], cuts: list[Cut]) -> Iterator[Row]:
    """Two executions of one run at once are allowed only while the worker of the first is cut off."""
    together = [(one, _how_cut_off(one, executions, cuts)) for one in executions if not one.alone]
    wrong = [f"{one} at {one.begin:.3f}" for one, how in together if how is None]
    yield Row("no run was executed twice at the same time", len(executions), wrong)
    for how in ("stopped", "killed"):
        yield Row(f"  (allowed: under an old fence, worker {how})", sum(found == how for _, found in together), [])


def _how_cut_off(one: Execution, executions: list[Execution], cuts: list[Cut]) -> str | None:
    """What had become of the worker of an earlier execution that went on. One that was stopped may go on with its work
    after it was continued, until it hears that it must not; one that was killed is gone within a moment."""
    return next(
        (
            cut.kind
            for first in executions
            if first.run_id == one.run_id and first.begin <= one.begin <= (first.end or one.begin) and first is not one
            for cut in cuts
            if cut.pid == first.host and first.begin <= cut.until and cut.since <= one.begin
            if cut.kind == "stopped" or one.begin <= cut.until
        ),
        None,
    )


def _check_keys(load: Load, every: list[Run]) -> Row:
    found: dict[str, set[str]] = defaultdict(set, {key: set(ids) for key, ids in load.keys.items()})
    for run in every:
        if run.key is not None:
            found[run.key].add(run.id)
    several = [f"{key}: {' '.join(sorted(ids))}" for key, ids in found.items() if len(ids) > 1]
    return Row("a key has one run, whatever was pruned", len(found), several)


def _check_schedules(every: list[Run]) -> Iterator[Row]:
    times: dict[tuple[str, int], list[Run]] = defaultdict(list)
    for run in every:
        if run.job_id in SCHEDULED:
            times[run.job_id, int(run.scheduled_at)].append(run)
    twice = [found[0].id for found in times.values() if sum(run.state != State.SKIPPED for run in found) > 1]
    yield Row("a fire time has one run that is not skipped", len(times), twice)
    missing = []
    for job in SCHEDULED:
        seconds = {at for name, at in times if name == job}
        missing += [f"{job}:{at}" for at in range(min(seconds), max(seconds)) if at not in seconds]
    yield Row("each second of a schedule has a run", len(times), missing)
