"""Jobs, each from a document or from the body of a request."""

from collections.abc import Mapping
from typing import Any

import msgspec

from interlock.config.declarations import DeclaredJob
from interlock.config.documents import made_of
from interlock.config.faults import Faults, Spot
from interlock.config.fields import NO_VALUE, Fields
from interlock.config.plain_yaml import Part
from interlock.config.run_fields import NOTHING, env_of, folder_of, function_of, way_of
from interlock.model import payload
from interlock.model.error import BadValue, NotJson, PayloadTooLarge, shown
from interlock.model.job import JOB_ID, Job, Retry
from interlock.model.schedule import KINDS, Schedule
from interlock.model.work import FunctionWork, ProcessLimits, ProcessWork, Work, shell
from interlock.supervision.field_checks import check_command, check_text
from interlock.supervision.spec import Limits

RUNS = ("process", "shell", "function")
OPTIONAL = ("schedule", "payload", "deadline", "max_runtime", "cwd")
OF_PROCESS = ("env", "cwd", "limits", "stdin")
"""fields that a function, which runs inside a worker, has no use for"""
CONSTRAINTS = ("max_concurrent_runs",)
READ: Mapping[str, str] = {
    **dict.fromkeys(("lane", "cron", "tz"), "text"),
    **dict.fromkeys(("deadline", "max_runtime", "grace"), "span"),
    **dict.fromkeys(("files", "processes", "max_concurrent_runs"), "count"),
    **dict.fromkeys(("max_crashes", "max_retries"), "count_or_none"),
    "max_runtime_per_attempt": "truth",
    "memory": "size",
}
"""how fields are read, where their kind does not know what people write"""
PLAIN = ("lane", "deadline", "max_runtime", "max_runtime_per_attempt", "max_crashes", "grace")
STAND_INS: Mapping[str, Any] = {"once": True, "at": 0, "every": 1e9, "cron": "* * * * *"}
"""in place of the time that is wrong, to find what else is"""
OF_ANY = ("wait", "jitter", "catch_up", "catch_up_window", "catch_up_max")
"""what is right or wrong whatever the kind of the schedule is"""
NAMELESS = "nameless"
PAST = "is not in the future; where the job has run before, 'interlock up' takes it all the same"


def read_job(values: Mapping[str, Any], job_id: str) -> Job:
    """The job of this id as a request has it; raises one `BadConfig` for everything that is wrong with it."""
    faults = Faults()
    for name, expected in (("kind", "Job"), ("id", job_id)):
        if values.get(name, expected) != expected:
            faults.add(Spot(""), f"{name}: {shown(values[name])} is not {shown(expected)}, or left out")
    document = made_of(Part({**values, "id": job_id}, 0, {"": 0}, {}), "Job", "", faults)
    declared = declared_job(Fields(document, faults, OPTIONAL))
    faults.check()
    assert declared is not None
    assert declared.job is not None
    return declared.job


def declared_job(fields: Fields, now: float | None = None) -> DeclaredJob | None:
    """What a document declares; None if it has no name. With a time given, what lies before it is a fault."""
    name = _name(fields)
    values = _plain(fields)
    values |= {"schedule": _schedule(fields, now), "payload": _payload(fields), "work": _work(fields)}
    values |= _retry(fields) | _constraints(fields)
    job = fields.made(Job, {"id": name or NAMELESS} | values, fields.before, str)
    if name is None:
        return None
    return DeclaredJob(name=name, job=job, spot=fields.document.spot("id"))


def _name(fields: Fields) -> str | None:
    given = fields.given.get("id")
    if given is None:
        fields.missing("id")
        return None
    name = fields.text("id", given)
    if name is not None and not JOB_ID.fullmatch(name):
        fields.wrong("id", f"{shown(name)} is not a name of letters, digits, '_', '-' and '.', up to 128 long")
        return None
    return name


def _plain(fields: Fields) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in PLAIN:
        if name not in fields.given:
            continue
        if fields.given[name] is None:
            fields.wrong(name, NO_VALUE)
            continue
        value = getattr(fields, READ[name])(name, fields.given[name])
        if value is not None:
            found[name] = value
    return found


def _payload(fields: Fields) -> dict[str, Any] | None:
    given = fields.given.get("payload")
    if given is None:
        return None
    if not isinstance(given, dict):
        fields.wrong("payload", f"{shown(given)} is not a mapping of arguments")
        return None
    try:
        payload.encode(given, "payload")
    except (NotJson, PayloadTooLarge) as error:
        fields.faults.add(fields.document.spot("payload"), str(error))
        return None
    return given


def _retry(fields: Fields) -> dict[str, Any]:
    retry = fields.part("retry", Retry, READ) if "retry" in fields.given else None
    return {} if retry is None else {"retry": retry}


def _constraints(fields: Fields) -> dict[str, Any]:
    if "constraints" not in fields.given:
        return {}
    given = fields.mapping("constraints", fields.given["constraints"], CONSTRAINTS)
    return {} if given is None else fields.each("constraints", given, Job, READ)


# ── when ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _schedule(fields: Fields, now: float | None) -> Schedule | None:
    before = len(fields.faults)
    given = fields.given.get("schedule")
    known = None if given is None else fields.mapping("schedule", given, Schedule.__struct_fields__)
    if known is None:
        return None
    values = fields.each("schedule", known, Schedule, READ)
    kinds = [kind for kind in KINDS if known.get(kind) is not None and known[kind] is not False]
    if len(kinds) != 1:
        fields.wrong("schedule", f"{shown(kinds)} is not exactly one of {', '.join(KINDS)}")
        values = {name: value for name, value in values.items() if name in OF_ANY}
    kind = kinds[0] if len(kinds) == 1 else "once"
    values.setdefault(kind, STAND_INS[kind])
    schedule = fields.made(Schedule, values, before, "schedule.{}".format, STAND_INS)
    if schedule is None:
        return None
    for warning in schedule.warnings:
        fields.faults.warn(fields.document.spot(warning.partition(":")[0]), warning)
    if now is not None and schedule.at is not None and schedule.at <= now:
        fields.wrong("schedule.at", f"{shown(known['at'])} {PAST}")
    return schedule


# ── what ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _work(fields: Fields) -> Work | None:
    way, given = way_of(fields, RUNS)
    if way == "function":
        for name in OF_PROCESS:
            if name in fields.given:
                fields.wrong(name, "not for a function, which runs inside a worker")
        function = function_of(fields, given)
        return None if function is None else FunctionWork(function=function)
    values: dict[str, Any] = {"command": _command(fields, way, given), "env": env_of(fields), "cwd": folder_of(fields)}
    if "stdin" in fields.given:
        values["stdin"] = fields.truth("stdin", fields.given["stdin"])
    limits = fields.part("limits", Limits, READ) if "limits" in fields.given else None
    if limits is not None:
        values["limits"] = ProcessLimits(**msgspec.structs.asdict(limits))
    return ProcessWork(**values)


def _command(fields: Fields, way: str, given: Any) -> tuple[str, ...]:
    """Something that does no harm, if there is a fault."""
    path = f"run.{way}"
    try:
        if way == "process":
            # What is no list of anything is refused as a command.
            texts = fields.texts(path, given) if isinstance(given, list) and given else given
            return NOTHING if isinstance(given, list) and texts is None else check_command(path, texts)
        if way == "shell":
            text = fields.text(path, given)
            if text is not None:
                check_text(path, text, "a text for the shell to read")
                return shell(text)
    except BadValue as error:
        fields.refuse(path, error)
    return NOTHING
