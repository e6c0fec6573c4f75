"""A job: its id, when and where it runs, how it is retried and how long it may take."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from math import inf
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NotRequired, Self, TypedDict

import msgspec

from interlock.error import BadUse, BadValue, InterlockError, MissingField
from interlock.fields import field_types as kinds
from interlock.fields.field import Checked, Field, Nested, Some, doc, settable
from interlock.model import guard
from interlock.model.labels import LABELS
from interlock.model.lane import CRON, MAIN
from interlock.model.record import Record
from interlock.model.retry import Retry as Retry
from interlock.model.schedule.schedule import Schedule
from interlock.model.session import SOME_OPTIONS
from interlock.model.work import WORK_FIELDS, JobRun, Work
from interlock.model.workflow import Workflow

JOB_ID = re.compile(kinds.JOB_NAME)
NAME = re.compile(kinds.NAME)
LONGEST_VALUE = 128  # bytes of a value that a limit counts; a longer one counts by its digest
RETRIES_OF_SCHEDULED = 3  # retries of a run of a job with a schedule other than `once`, unless the job says otherwise

if TYPE_CHECKING:
    Tags = Sequence[str]  # as you may give them
else:
    Tags = tuple[str, ...]  # as they are kept

TAGS = kinds.Texts(
    kinds.Word(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,63}", "a name of letters, digits and '_-.:/', up to 64 long"),
    expected="a list of names",
    make=tuple,
)


class ExecutorKind(StrEnum):
    ASYNC = "async"  # on the event loop of a shared process
    THREAD = "thread"  # in a thread of a shared process
    PROCESS = "process"  # in a process of its own


class Priority(StrEnum):
    CRITICAL = "critical"
    INTERACTIVE = "interactive"
    BATCH = "batch"


class Sensitivity(StrEnum):
    PUBLIC = "public"
    INTERNAL = "internal"
    CONFIDENTIAL = "confidential"
    SECRET = "secret"


SENSITIVITY = kinds.Choice(*Sensitivity, make=Sensitivity)

RANKS = {priority: rank for rank, priority in enumerate(Priority)}
"""place of each priority in the order of a lane"""


class KeyLimit(Checked, frozen=True, kw_only=True, gc=False):
    """A limit on the runs of a job that share a value in their payload: how many execute at once, how often one starts,
    or both."""

    where: ClassVar[str] = "limit"

    key: Annotated[str, doc("Argument whose value is counted. Runs without it count as those with null."), kinds.Text()]
    max: Annotated[int | None, doc("Runs with one value that may execute at once."), kinds.Whole(1)] = None
    rate: Annotated[float | None, doc("Maximum rate of starts with one value, such as `10/s`."), kinds.Rate()] = None
    burst: Annotated[int, doc("Starts with one value allowed at once after an idle period."), kinds.Whole(1)] = 1

    def check(self) -> None:
        if self.max is None and self.rate is None:
            raise BadUse(self.where, "needs max, rate or both")

    def value_of(self, payload: bytes | None) -> str:
        """Return what a run with this payload counts as."""
        try:
            # The other arguments stay unread: those of a large payload would hold up the scheduler.
            found = msgspec.json.decode(payload or b"{}", type=dict[str, msgspec.Raw]).get(self.key)
        except msgspec.ValidationError:
            found = None
        value = None if found is None else msgspec.json.decode(found)
        content = msgspec.json.encode(value)
        return content.decode() if len(content) <= LONGEST_VALUE else hashlib.blake2b(content).hexdigest()


class KeyLimitFields(TypedDict):
    """A bound on the runs of a job with one value in their payload, as you give it with the job."""

    key: str
    max: NotRequired[int]
    rate: NotRequired[str]  # such as `10/s`
    burst: NotRequired[int]


def key_limit(given: KeyLimitFields) -> KeyLimit:
    found = Some(KeyLimit).check(given, kinds.FieldPath(KeyLimit.where))
    if "key" not in found:
        raise MissingField(f"{KeyLimit.where}.key")
    return KeyLimit(**found)


_MOST_SHARED = 10_000
_same: dict[tuple[type, bytes], Any] = {}


def _shared(value: msgspec.Struct) -> Any:
    """Return the first value equal to this one, if it is remembered: one object for all."""
    key = (type(value), msgspec.msgpack.encode(value))
    if len(_same) < _MOST_SHARED:
        return _same.setdefault(key, value)
    return _same.get(key, value)


class Job(Checked, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A definition as the scheduler knows it; `version` changes whenever anything else in it does. The fields with a
    description are those of a document `kind: Job` and of a body over HTTP."""

    id: Annotated[str, doc("Name of the job."), kinds.JOB_WORD]
    schedule: Annotated[Schedule | None, doc("When it runs; without one, when it is submitted or triggered.")] = None
    payload: Annotated[dict[str, Any] | None, doc("Default arguments of its runs."), guard.Payload()] = None
    lane: Annotated[
        str | None,
        doc("Lane whose slots its runs take; default `cron` for occurrences of its schedule, `main` for other runs."),
        kinds.WORD,
    ] = None
    priority: Annotated[Priority, doc("Its runs' place in the lane: `critical`, `interactive` or `batch`.")] = (
        Priority.INTERACTIVE
    )
    retry: Annotated[Retry, doc("How often and when a failed run is tried again.")] = Retry()
    rate: Annotated[float | None, doc("Maximum start rate, such as `10/s`."), kinds.Rate()] = None
    burst: Annotated[int, doc("Starts allowed at once after an idle period."), kinds.Whole(1)] = 1
    limit: Annotated[
        KeyLimit | None, doc("Most runs at once, and the highest rate of starts, for each value of an argument.")
    ] = None
    sessions: Annotated[
        dict[str, Any] | None, doc("Options of the sessions that its runs are submitted to."), SOME_OPTIONS
    ] = None
    deadline: Annotated[
        float | None, doc("Time from its due time within which a run must end."), kinds.POSITIVE_SPAN
    ] = None
    max_runtime: Annotated[
        float | None,
        doc("Longest time from the first start of a run; `grace` to stop comes on top."),
        kinds.POSITIVE_SPAN,
    ] = None
    max_runtime_per_attempt: Annotated[bool, doc("Whether `max_runtime` counts anew for each attempt.")] = False
    start_timeout: Annotated[
        float, doc("Longest time in which a container must start, pulling its image included."), kinds.POSITIVE_SPAN
    ] = 600.0
    max_crashes: Annotated[int, doc("Times a run may lose its process."), kinds.Whole(0)] = 3
    grace: Annotated[
        float, doc("Time between the request to stop, TERM and KILL; a process gets TERM at once."), kinds.Span()
    ] = 10.0
    topic: Annotated[
        str | None, doc("Topic by which policies and pools match it; default: its id."), kinds.JOB_WORD
    ] = None
    capabilities: Annotated[Tags, doc("Abilities that its runs use, for policies."), TAGS] = ()
    risk_tags: Annotated[Tags, doc("Risks of its runs, for policies."), TAGS] = ()
    requires: Annotated[Tags, doc("Capabilities that its runs need of a worker; for policies too."), TAGS] = ()
    labels: Annotated[dict[str, str] | None, doc("Labels of its runs."), LABELS] = None
    sensitivity: Annotated[
        Sensitivity, doc("Sensitivity of its results: `public`, `internal`, `confidential` or `secret`.")
    ] = Sensitivity.INTERNAL
    executor: ExecutorKind = ExecutorKind.ASYNC
    secrets: tuple[str, ...] = ()  # arguments that are never shown, because the handler takes them as `Secret`
    constraints: Annotated[guard.Constraints, doc("Conditions on its runs.")] = guard.NO_CONSTRAINTS
    on_constraint_violation: Annotated[
        guard.Actions,
        doc("Actions when a constraint is violated; by default `wait` for `max_concurrent_runs`, else `skip`."),
        guard.ACTIONS,
    ] = ()
    on_failure: Annotated[
        guard.Actions, doc("Actions after a run has failed, timed out or been given up."), guard.ACTIONS
    ] = ()
    on_success: Annotated[guard.Actions, doc("Actions after a run has succeeded."), guard.ACTIONS] = ()
    on_late: Annotated[guard.Actions, doc("Actions when a run exceeds `max_expected_run_time`."), guard.ACTIONS] = ()
    work: Work | None = None  # None for a function of the app under the same id, and for a workflow
    workflow: Workflow | None = None
    code: str = ""  # digest of the code of an app's function
    version: str = ""

    def check(self) -> None:
        # A million jobs may have few schedules, and do few things.
        for field in ("schedule", "work"):
            value = getattr(self, field)
            if value is not None:
                self.put(field, _shared(value))
        self._check_guards()
        if self.workflow is not None:
            self._check_workflow()
        if not self.version:
            content = msgspec.json.encode(self)
            self.put("version", hashlib.blake2b(content, digest_size=8).hexdigest())

    def _check_guards(self) -> None:
        constraints = self.constraints
        if constraints is not guard.NO_CONSTRAINTS and constraints == guard.NO_CONSTRAINTS:
            self.put("constraints", guard.NO_CONSTRAINTS)
        allowed = constraints.max_allowed_run_time
        if allowed is not None and self.max_runtime not in (None, allowed):
            raise BadUse("max_runtime", "differs from constraints.max_allowed_run_time; give only one of them")
        if allowed is not None:
            self.put("max_runtime", allowed)
        for event in guard.EVENTS:
            if actions := self.actions(event):
                guard.check_actions(event, actions, event == "on_constraint_violation")
        if self.on_constraint_violation and not constraints.before:
            raise BadUse(
                "on_constraint_violation",
                "needs a constraint that is checked before a run, such as max_concurrent_runs",
            )
        if self.on_late and constraints.max_expected_run_time is None:
            raise BadUse("on_late", "needs constraints.max_expected_run_time")

    def _check_workflow(self) -> None:
        """Refuse what a run without a worker cannot have."""
        given = {
            "retry": self.retry != Retry(),
            "limit": self.limit is not None,
            "constraints.post_run_hook": self.constraints.post_run_hook is not None,
            "max_runtime_per_attempt": self.max_runtime_per_attempt,
        }
        for name, is_given in given.items():
            if is_given:
                raise BadUse(name, "a workflow has none; give it to a step, or to the job of a step")

    @property
    def function_of(self) -> str | None:
        """Id of the other job whose function it runs."""
        return None if self.work is None else self.work.function_of

    @property
    def policy_topic(self) -> str:
        return self.topic or self.id

    def with_labels(self, own: dict[str, str] | None) -> dict[str, str] | None:
        """Return the labels of a run that has these of its own; None without any."""
        return {**self.labels, **(own or {})} if self.labels else own or None

    def actions(self, event: str) -> tuple[guard.Action, ...]:
        found: tuple[guard.Action, ...] = getattr(self, event)
        return found

    @property
    def occurrences_at_once(self) -> float:
        """Number of occurrences that may be live at once; `max_concurrent_runs` is checked like any constraint."""
        return 1 if self.constraints.max_concurrent_runs is None else inf

    @property
    def lanes(self) -> tuple[str, str]:
        """The lanes of its occurrences, and of other runs."""
        return self.lane or CRON, self.lane or MAIN

    @property
    def max_retries(self) -> int:
        """How often a run is tried again, whatever it was created by: its schedule, a trigger or a submit."""
        if self.retry.max_retries is not None:
            return self.retry.max_retries
        return 0 if self.schedule is None or self.schedule.once else RETRIES_OF_SCHEDULED

    @property
    def unscheduled(self) -> "Job":
        """The job without its schedule, with the retries that a schedule implies."""
        if self.schedule is None:
            return self
        retry = self.retry
        if self.workflow is None:  # which is not retried
            retry = msgspec.structs.replace(retry, max_retries=self.max_retries)
        return msgspec.structs.replace(self, schedule=None, retry=retry, version="")


def guards_of(job: Job) -> dict[str, Any]:
    """Return the constraints and actions of a job as they are shown."""
    found = {name: msgspec.to_builtins(getattr(job, name)) for name in ("constraints", *guard.EVENTS)}
    return {name: _without_queries(item) for name, item in found.items() if item}


def _without_queries(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_queries(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: guard.without_query(item) if name == "url" else _without_queries(item) for name, item in value.items()
    }


def check_lane(job: Job, lanes: Iterable[str]) -> None:
    """Refuse a job in a lane that is not declared."""
    if job.lane is not None and job.lane not in (declared := list(lanes)):
        raise BadValue(
            "lane", job.lane, f"declared; use one of {', '.join(declared)}{kinds.did_you_mean(job.lane, declared)}"
        )


JOB_FIELDS: dict[str, Field] = {
    **settable(Job),
    "run": Field(name="run", kind=Nested(JobRun), description="What it does."),
    **WORK_FIELDS,
}
"""the fields of a document `kind: Job`; a body over HTTP has the same"""


class StoredJob(Record, frozen=True):
    kind = "job"

    job: Job

    def encode(self) -> bytes:
        return msgspec.json.encode(self.job)

    @classmethod
    def read(cls, id: str, value: bytes) -> Self | None:
        job = read_job(value)
        return None if job is None else cls(id, job)


def read_job(data: bytes) -> Job | None:
    """Return a stored definition. If a check fails now, for example for a time zone that this machine does not have, it
    goes without its schedule rather than keep a scheduler from starting."""
    try:
        return msgspec.json.decode(data, type=Job)
    except (InterlockError, msgspec.ValidationError) as error:
        import logging  # most programs never need it, and it is slow to load

        logger = logging.getLogger("interlock.store")
        fields = msgspec.json.decode(data)
        try:
            job = msgspec.convert({name: value for name, value in fields.items() if name != "schedule"}, Job)
        except (InterlockError, msgspec.ValidationError):
            logger.error("the stored job %r cannot be read and is left out: %s", fields.get("id"), error)
            return None
        logger.error("the schedule of the stored job %r cannot be read, so it has none: %s", job.id, error)
        return job
