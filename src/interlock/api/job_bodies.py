"""A job as it is put over HTTP, for the description: the fields of a document `kind: Job`. They are read by the same
code that reads documents, which tells every fault at once."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from interlock.model.bodies import MOST_JOBS, DurationText, Instant, JobId, Name, Seconds
from interlock.model.schedule import MOST_CATCH_UP, CatchUp

Span = DurationText | Seconds
Count = Annotated[int, Meta(ge=1, lt=2**31)]


class _Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    pass


class ScheduleBody(_Body, frozen=True, kw_only=True):
    """When a job runs: exactly one of `once`, `at`, `every` and `cron`."""

    once: bool | None = None
    at: str | Instant | None = None
    every: Span | None = None
    cron: str | None = None
    tz: str | None = None
    wait: Span | None = None
    jitter: Span | None = None
    catch_up: CatchUp | None = None
    catch_up_window: Span | None = None
    catch_up_max: Annotated[int, Meta(ge=0, le=MOST_CATCH_UP)] | None = None
    keep: bool | None = None


class WorkBody(_Body, frozen=True, kw_only=True):
    """What a job does: exactly one of them."""

    process: Annotated[list[str], Meta(min_length=1)] | None = None
    shell: str | None = None
    function: str | None = None


class RetryBody(_Body, frozen=True, kw_only=True):
    """How often and after which delays a failed run is tried again."""

    max_retries: Annotated[int, Meta(ge=0, lt=2**31)] | None = None
    initial_delay: Span | None = None
    multiplier: Annotated[float, Meta(ge=1, le=1000)] | None = None
    max_delay: Span | None = None
    jitter: Annotated[float, Meta(ge=0, le=1)] | None = None


class ConstraintsBody(_Body, frozen=True, kw_only=True):
    max_concurrent_runs: Count | None = None


class LimitsBody(_Body, frozen=True, kw_only=True):
    """What a process may take."""

    memory: str | Annotated[int, Meta(ge=1)] | None = None
    cpu: Span | None = None
    files: Count | None = None
    processes: Count | None = None


class JobBody(_Body, frozen=True, kw_only=True):
    """A job."""

    run: WorkBody
    schedule: ScheduleBody | None = None
    payload: dict[str, Any] | None = None
    lane: Name | None = None
    retry: RetryBody | None = None
    deadline: Span | None = None
    max_runtime: Span | None = None
    max_runtime_per_attempt: bool | None = None
    max_crashes: Annotated[int, Meta(ge=0, lt=2**31)] | None = None
    grace: Span | None = None
    constraints: ConstraintsBody | None = None
    env: dict[str, str | None] | None = None
    cwd: str | None = None
    limits: LimitsBody | None = None
    stdin: bool | None = None


class NamedJobBody(JobBody, frozen=True, kw_only=True):
    """A job with its id."""

    id: JobId


class JobsBody(_Body, frozen=True, kw_only=True):
    jobs: Annotated[list[NamedJobBody], Meta(min_length=1, max_length=MOST_JOBS)]
