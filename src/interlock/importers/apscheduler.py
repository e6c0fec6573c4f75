"""Jobs of APScheduler 3: `add_job` and `@scheduled_job` with cron, interval and date triggers."""

import re
from datetime import date, datetime
from typing import Any

from interlock.importers.calendar import DAY, HOUR, MINUTE, MONTH, WEEKDAY, FieldNumbers, cron_text, numbers_of
from interlock.importers.draft import FOREVER, CannotCarry, Draft, Imported, ImportSource, duration
from interlock.importers.python_source import Code, PythonSource

_MONDAY_FIRST = WEEKDAY._replace(names=(*WEEKDAY.names[1:], WEEKDAY.names[0]))
_NAMES = ("year", "month", "day", "week", "day_of_week", "hour", "minute", "second")
_DEFAULTS = dict(zip(_NAMES, "*11**000", strict=True))
_UNITS = {"weeks": 604800, "days": 86400, "hours": 3600, "minutes": 60, "seconds": 1}
_OPTIONS = ("func", "trigger", "args", "kwargs", "id", "name", "misfire_grace_time", "coalesce", "max_instances",
            "next_run_time", "jobstore", "executor", "replace_existing")  # fmt: skip
_TRIGGERS = {
    "CronTrigger": ("cron", tuple(_DEFAULTS)),
    "from_crontab": ("crontab", ("expr", "timezone")),
    "IntervalTrigger": ("interval", tuple(_UNITS)),
    "DateTrigger": ("date", ("run_date", "timezone")),
}
_PLACE = re.compile(r"(last|([1-5])(?:st|nd|rd|th)) +([a-z]+)")
_NOTES = [
    "Time zone of triggers without one: {tz}.",
    "APScheduler drops fire times while max_instances runs are active; Interlock runs the latest one afterwards.",
    "Workers import the functions: a file that starts its scheduler must do so under if __name__ == '__main__'.",
    "Where clocks change, APScheduler may skip a time or fire it twice; Interlock fires once.",
]


def read(source: ImportSource) -> Imported:
    """Read a Python file that adds jobs to a scheduler."""
    program, drafts = PythonSource(source), list[Draft]()
    options: dict[Any, Any] = {}
    for call, _ in program.calls():
        if call.last.endswith("Scheduler") or call.last == "configure":
            options |= call.kwargs
    tz, defaults = options.get("timezone") or source.tz, options.get("job_defaults") or {}
    for call, function in program.calls():
        if call.last == "add_job" or (call.last == "scheduled_job" and function is not None):
            drafts.append(draft := program.draft(function or "job", call.line, call.text))
            with draft.carrying():
                _set_job(draft, program, call, function, str(tz), defaults if isinstance(defaults, dict) else {})
    unread = [
        f"{name} = {one.text}: not carried over"
        for name in ("timezone", "job_defaults")
        if isinstance(one := options.get(name), Code)
    ]
    return Imported(drafts, [note.format(tz=tz) for note in _NOTES] + unread)


def _set_job(
    draft: Draft, program: PythonSource, call: Code, function: str | None, tz: str, defaults: dict[str, Any]
) -> None:
    given = dict(zip(_OPTIONS if function is None else _OPTIONS[1:], call.args, strict=False)) | call.kwargs
    target = given.get("func") if function is None else f".{function}"
    name = target.name if isinstance(target, Code) else str(target).replace(":", ".")
    draft.name = str(given.get("id") or name.rpartition(".")[2])
    with draft.carrying():
        rest = {name: one for name, one in given.items() if name not in _OPTIONS}
        _set_trigger(draft, given.get("trigger"), rest, tz)
        _set_options(draft, defaults | given)
    program.set_function(draft, name, given.get("args"), given.get("kwargs"))


def _set_options(draft: Draft, options: dict[str, Any]) -> None:
    grace, schedule = options.get("misfire_grace_time", 1), draft.fields["schedule"]
    if isinstance(grace, Code):
        draft.notes.append(f"misfire_grace_time = {grace.text}: not carried over")
    elif grace is not None and grace <= 1:
        schedule["catch_up"] = "none"
    else:
        schedule["catch_up"] = "latest" if options.get("coalesce", True) else "all"
        schedule["catch_up_window"] = FOREVER if grace is None else duration(grace)
    if (most := options.get("max_instances", 1)) != 1:
        draft.fields["constraints"] = {"max_concurrent_runs": most}
    for name in ("next_run_time", "jobstore", "executor"):
        if name in options:
            draft.notes.append(f"{name}: not carried over")


def _set_trigger(draft: Draft, trigger: Any, given: dict[str, Any], tz: str) -> None:
    kind = "date" if trigger is None else str(trigger)
    if isinstance(trigger, Code):
        kind, order = _TRIGGERS.get(trigger.last, (trigger.text, ()))
        given = dict(zip(order, trigger.args, strict=False)) | trigger.kwargs
    given = {name: value for name, value in given.items() if value is not None}
    tz = str(given.pop("timezone", tz))
    jitter = given.pop("jitter", None)
    draft.notes += [f"{name}: not carried over" for name in ("start_date", "end_date") if given.pop(name, None)]
    if kind in ("cron", "crontab"):
        draft.set_schedule(tz, cron=_cron(given if kind == "cron" else _of_crontab(given.get("expr"))))
    elif kind == "interval":
        if any(not isinstance(value, (int, float)) or name not in _UNITS for name, value in given.items()):
            raise CannotCarry("the interval cannot be read")
        draft.set_schedule(every=duration(sum(_UNITS[name] * value for name, value in given.items()) or 1))
        draft.notes.append("First run: at once; APScheduler waits an interval first.")
    elif kind == "date" and "run_date" in given:
        when = given["run_date"]
        text = when.isoformat() if isinstance(when, (date, datetime)) else when
        draft.set_schedule("UTC" if isinstance(when, datetime) and when.tzinfo else tz, at=text)
    elif kind == "date":
        draft.set_schedule(once=True)
        draft.notes.append("APScheduler runs it whenever its program starts; Interlock runs it once per database.")
    else:
        raise CannotCarry(f"trigger {kind} is not cron, interval or date")
    if jitter:
        draft.fields["schedule"]["jitter"] = duration(jitter) if isinstance(jitter, (int, float)) else jitter
        draft.notes.append("jitter: APScheduler draws a new delay each time; a job of Interlock keeps its delay.")


def _of_crontab(text: Any) -> dict[str, str]:
    """Return the fields of an expression; APScheduler counts weekdays from Monday here too."""
    names = ("minute", "hour", "day", "month", "day_of_week")
    if not isinstance(text, str) or len(text.split()) != len(names):
        raise CannotCarry("from_crontab needs an expression of five fields")
    return dict(zip(names, text.split(), strict=True))


def _cron(given: dict[str, Any]) -> str:
    """Return the expression. Fields below the lowest given one have their first value; others have any value."""
    if other := {str(name) for name in given} - set(_DEFAULTS):
        raise CannotCarry(f"a cron trigger has no field {min(other)!r}")
    texts, rest = {}, set(given)
    for name, first in _DEFAULTS.items():
        texts[name] = str(given[name]).strip().lower() if name in given else "*" if rest or not given else first
        rest.discard(name)
    if (texts["year"], texts["week"], texts["second"].lstrip("0")) != ("*", "*", ""):
        raise CannotCarry("a cron expression of Interlock has no years, weeks or seconds")
    weekdays = numbers_of(texts["day_of_week"], _MONDAY_FIRST)
    weekdays = FieldNumbers(frozenset((number + 1) % 7 for number in weekdays.chosen))
    special = texts["day"] if "last" in texts["day"] or _PLACE.fullmatch(texts["day"]) else ""
    day = numbers_of("*" if special else texts["day"], DAY)
    minute, hour, month = (numbers_of(texts[field.name], field) for field in (MINUTE, HOUR, MONTH))
    expression = cron_text(minute, hour, day, month, weekdays)
    if not special:
        return expression
    if len(weekdays.chosen) < 7:
        raise CannotCarry(f"no cron expression combines day={special!r} with day_of_week")
    parts = expression.split()
    if found := _PLACE.fullmatch(special):
        number = numbers_of(found[3], WEEKDAY).chosen
        parts[4] = f"{min(number)}L" if found[1] == "last" else f"{min(number)}#{found[2]}"
    else:
        parts[2] = special.replace("last", "L").replace(" ", "")
    return " ".join(parts)
