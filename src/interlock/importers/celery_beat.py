"""Schedules of Celery beat: `beat_schedule`, under any of its names, and `add_periodic_task`."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from interlock.importers.calendar import DAY, HOUR, MINUTE, MONTH, WEEKDAY, cron_text, numbers_of
from interlock.importers.draft import CannotCarry, Draft, Imported, ImportSource, duration
from interlock.importers.python_source import Code, PythonSource

_FIELDS = {"minute": MINUTE, "hour": HOUR, "day_of_month": DAY, "month_of_year": MONTH, "day_of_week": WEEKDAY}
_NOTES = [
    "Time zone: {tz}. Celery uses UTC unless its 'timezone' is set.",
    "Each job calls the function of its task in an Interlock worker, without a broker. Retries that a task asks for "
    "(autoretry_for, self.retry) are not carried over: set retry.",
    "Celery starts a task while its previous run is active; Interlock starts it afterwards. Raise "
    "constraints.max_concurrent_runs to let them overlap.",
    "At its start, beat runs an overdue crontab entry, however late; Interlock runs it if it is under a minute old "
    "(schedule.catch_up_window).",
]


def read(source: ImportSource) -> Imported:
    """Read a Python file with the settings of Celery, or with calls of `add_periodic_task`."""
    program = PythonSource(source)
    drafts: list[Draft] = []
    settings = list(_settings(program))
    known = {name.removeprefix("celery_"): value for name, value, _ in settings}
    tz = str(known.get("timezone") or ("UTC" if known.get("enable_utc", True) else source.tz))
    for name, entries, line in settings:
        if name.endswith("beat_schedule"):
            for key, entry in entries.items() if isinstance(entries, dict) else [(name, entries)]:
                drafts.append(draft := program.draft(str(key), line, f"{key}: {entry!r}"))
                with draft.carrying():
                    _set_entry(draft, program, entry, tz)
    for call, _ in program.calls():
        if call.last == "add_periodic_task":
            drafts.append(draft := program.draft("task", call.line, call.text))
            with draft.carrying():
                _set_periodic(draft, program, call, tz)
    return Imported(drafts, [note.format(tz=tz) for note in _NOTES])


def _settings(program: PythonSource) -> Iterator[tuple[str, Any, int]]:
    """Yield name, value and line of every assignment, and of every argument of `update` and `Celery`."""
    for name, value, line in program.assignments():
        yield name.lower(), value, line
    for call, _ in program.calls():
        if call.last in ("update", "Celery"):
            yield from ((str(name).lower(), value, call.line) for name, value in call.kwargs.items())
            yield call.name.split(".")[-2].lower() if "." in call.name else "", (call.args or [None])[0], call.line


def _set_entry(draft: Draft, program: PythonSource, entry: Any, tz: str) -> None:
    if not isinstance(entry, dict) or not {"task", "schedule"} <= set(entry):
        raise CannotCarry("the entry is not a readable dictionary with 'task' and 'schedule'")
    with draft.carrying():
        _set_schedule(draft, entry["schedule"], tz)
    options = entry.get("options")
    more = {f"options.{name}": value for name, value in options.items()} if isinstance(options, dict) else {}
    more |= {name: value for name, value in entry.items() if name not in ("task", "schedule", "args", "kwargs")}
    draft.notes += [f"{name} = {value!r}: not carried over" for name, value in more.items() if name != "options"]
    task = entry["task"]
    name = task.name.removesuffix(".name") if isinstance(task, Code) else str(task)
    if "." not in name:
        raise CannotCarry(f"task {name!r} names no module; give its function as run.function")
    program.set_function(draft, name, entry.get("args"), entry.get("kwargs"))


def _set_periodic(draft: Draft, program: PythonSource, call: Code, tz: str) -> None:
    """Read `add_periodic_task(schedule, task.s(…), name=…)`."""
    every, signature = (*call.args, None, None)[:2]
    if not isinstance(signature, Code) or signature.last not in ("s", "si"):
        raise CannotCarry("its task is not a signature such as task.s(…)")
    function = signature.name.rpartition(".")[0]
    draft.name = str(call.kwargs.get("name") or function.rpartition(".")[2])
    draft.notes += [f"{name} = {one!r}: not carried over" for name, one in call.kwargs.items() if name != "name"]
    with draft.carrying():
        _set_schedule(draft, every, tz)
    program.set_function(draft, function, signature.args, signature.kwargs)


def _set_schedule(draft: Draft, schedule: Any, tz: str) -> None:
    if isinstance(schedule, Code) and schedule.last == "crontab":
        draft.set_schedule(tz, cron=_cron(schedule))
        return
    if isinstance(schedule, Code) and schedule.last == "schedule":
        schedule = (*schedule.args, schedule.kwargs.get("run_every"))[0]
    seconds = schedule.total_seconds() if isinstance(schedule, timedelta) else schedule
    if not isinstance(seconds, (int, float)):
        raise CannotCarry(f"{schedule!r} is neither crontab(…) nor an interval")
    draft.set_schedule(every=duration(seconds))
    draft.notes.append("First run: at once; beat waits an interval first.")


def _cron(call: Code) -> str:
    if len(call.args) > 2:
        raise CannotCarry("the third argument of crontab(…) depends on the version of Celery; give it by name")
    given = dict(zip(_FIELDS, call.args, strict=False)) | call.kwargs
    if other := {str(name) for name in given} - set(_FIELDS):
        raise CannotCarry(f"crontab(…) has an argument {min(other)!r} that cannot be read")
    texts = {name: ",".join(map(str, one)) if isinstance(one, list) else str(one) for name, one in given.items()}
    return cron_text(*(numbers_of(texts.get(name, "*"), field) for name, field in _FIELDS.items()))
