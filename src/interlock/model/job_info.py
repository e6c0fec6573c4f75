"""Views of jobs and of the timetable: the same values from Python, over HTTP and on the command line."""

from typing import Annotated, Any, ClassVar

import msgspec

from interlock.fields.field import doc
from interlock.fields.json_form import Time
from interlock.model.job import Priority, Sensitivity
from interlock.model.schedule.schedule import Schedule
from interlock.model.state import State
from interlock.model.work import KINDS

Times = Annotated[list[Time], doc("Fire times, in order; fewer than asked for if there are no more.")]
Cursor = Annotated[str | None, doc("Cursor of the next page; null on the last.")]
JobId = Annotated[str, doc("Id of the job.")]
RunId = Annotated[str, doc("Id of the run.")]
Origin = Annotated[str, doc("Origin: `submit`, `schedule`, `catch_up`, `trigger`, `backfill` or `retry`.")]
ExitCode = Annotated[int | None, doc("Exit code of the process, if it had one.")]
ErrorText = Annotated[str | None, doc("Text and traceback of the latest failure, without secrets.")]


class JobInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it is now."""

    id: JobId
    source: Annotated[str, doc("Place of the declaration: file and line, `python`, or `api`.")]
    kind: Annotated[str, doc(f"Kind of work: `handler` (a function of the app), {KINDS}.")]
    command: Annotated[
        str | None, doc("Program, function or job of the app, in words; null for a handler under its own id.")
    ]
    lane: Annotated[str, doc("Lane whose slots the job's runs use: those of its schedule, if it has one.")]
    priority: Annotated[Priority, doc("Place of its runs in the lane.")] = Priority.INTERACTIVE
    version: Annotated[str, doc("Hash of the definition.")]
    max_concurrent_runs: Annotated[
        int | None, doc("Most runs that may be live at once; null if only occurrences exclude each other.")
    ]
    guards: Annotated[
        dict[str, Any], doc("Constraints and actions as declared, with durations in seconds and URLs without queries.")
    ] = {}
    topic: Annotated[str, doc("Topic by which policies and pools match it.")]
    capabilities: Annotated[tuple[str, ...], doc("Abilities that its runs use.")] = ()
    risk_tags: Annotated[tuple[str, ...], doc("Risks of its runs.")] = ()
    requires: Annotated[tuple[str, ...], doc("Capabilities that its runs need of a worker.")] = ()
    labels: Annotated[dict[str, str], doc("Labels that its runs start with.")] = {}
    sensitivity: Annotated[Sensitivity, doc("Sensitivity of its results.")] = Sensitivity.INTERNAL
    schedule: Annotated[
        Schedule | None, doc("Schedule, with durations in seconds; null for a job that is only submitted or triggered.")
    ]
    schedule_text: Annotated[str | None, doc("Schedule, in words.")]
    paused: Annotated[bool, doc("Whether the schedule is paused.")]
    next_at: Annotated[Time | None, doc("Next fire time; null if paused, past the last one, or without a schedule.")]
    other_code: Annotated[list[str], doc("Workers whose code of the job differs from the scheduler's.")] = []
    live: Annotated[int, doc("Runs that have not ended.")] = 0
    last_run: Annotated["LastRun | None", doc("Newest run that has begun or ended.")] = None


class LastRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run in brief."""

    id: RunId
    state: Annotated[State, doc("State of the run.")]
    reason: Annotated[str, doc("Reason for the state.")]
    scheduled_at: Annotated[Time, doc("Time at which the run was first due.")]
    ended_at: Annotated[Time | None, doc("Time of the end; null if the run has not ended.")]


class JobPage(msgspec.Struct, frozen=True, kw_only=True):
    jobs: Annotated[list[JobInfo], doc("Jobs, in the order of their declaration.")]
    next: Cursor


class FireTimes(msgspec.Struct, frozen=True, kw_only=True):
    times: Times


class JobTimes(msgspec.Struct, frozen=True, kw_only=True):
    job_id: JobId
    times: Times
    more: Annotated[bool, doc("Whether times were left out: a job lists at most 20,000, a timetable 50,000.")]


class Timetable(msgspec.Struct, frozen=True, kw_only=True):
    """The fire times from `now` until `until`."""

    now: Annotated[Time, doc("Start.")]
    until: Annotated[Time, doc("End.")]
    jobs: Annotated[list[JobTimes], doc("Jobs that fire, the first to fire first.")]
    left_out: Annotated[int, doc("Further jobs that fire, beyond `limit`.")]


class Backfilled(msgspec.Struct, frozen=True, kw_only=True):
    created: Annotated[list[str], doc("Ids of the new runs.")]
    existing: Annotated[list[str], doc("Ids of runs that already existed; they are left as they are.")]


class LoggedRun(LastRun, frozen=True, kw_only=True):
    """A run with its output."""

    origin: Origin
    started_at: Annotated[Time | None, doc("Start of the first attempt.")]
    attempt: Annotated[int, doc("Number of the latest attempt.")]
    exit_code: ExitCode
    error: ErrorText
    output: Annotated[str, doc("Printed and logged lines, without secrets; only the first 16 KiB.")]
    cut: Annotated[bool, doc("Whether there is more output.")]


class JobLog(msgspec.Struct, frozen=True, kw_only=True):
    runs: Annotated[list[LoggedRun], doc("Runs that have begun or ended, newest first.")]


class JobEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A change of jobs at run time."""

    log: ClassVar = "@jobs"  # services' log that has these events; no service has such a name

    at: Annotated[Time, doc("Time.")]
    action: Annotated[str, doc("`put`, `dropped`, `paused`, `resumed` or `reloaded`.")]
    actor: Annotated[str, doc("Who asked for it.")]
    jobs: Annotated[list[str], doc("Jobs put, dropped, paused or resumed; of a reload, those that differ.")]
    count: Annotated[int, doc("Number of these jobs; `jobs` has the first 100.")]
