"""The guards of a job: constraints on its runs, and actions when one is violated, is late, fails or succeeds."""

import json
from collections.abc import Sequence
from enum import StrEnum
from string import Template
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

import msgspec

from interlock.error import BadUse, BadValue, MissingField, NotHere
from interlock.fields import field_types as kinds
from interlock.fields import payload
from interlock.fields.duration import Duration, checked
from interlock.fields.field import Checked, Nested, Several, doc, refuse_others
from interlock.fields.json_form import Time

LONGEST_URL = 2000
LONGEST_BODY = 16 * 1024  # characters of a template
DEEPEST = 16  # runs in a chain that each triggered the next
FILLED = ("run", "job", "tenant", "type", "state", "reason", "error", "attempt", "violations", "time", "id")
"""names that a template may use"""

VARIABLE = kinds.Word("[A-Za-z_][A-Za-z0-9_]{0,127}", "the name of an environment variable")


class Payload(kinds.Kind):
    """Arguments of a run, as JSON; only a document's are checked here."""

    def check(self, value: Any, place: kinds.FieldPath) -> Any:
        if place.document is not None:
            if not isinstance(value, dict):
                raise BadValue(str(place), value, "a mapping of arguments")
            payload.encode(value, str(place))
        return value

    def schema(self) -> kinds.Schema:
        return {"type": "object"}


def is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and len(text) <= LONGEST_URL


def without_query(url: str) -> str:
    """Return a URL that may be shown: a query or a fragment may hold a secret."""
    return urlsplit(url)._replace(query="", fragment="").geturl()


class Url(kinds.Text):
    def __init__(self) -> None:
        super().__init__("[!-~]+", "a URL that begins with http:// or https://", accepts=is_url)

    def check(self, value: Any, place: kinds.FieldPath) -> str:
        if isinstance(value, str) and "@" in value.partition("://")[2].partition("/")[0]:
            raise BadUse(
                str(place),
                "must not contain credentials; put the URL in an environment variable and name that in url_env",
            )
        return super().check(value, place)


URL = Url()


class BodyTemplate(kinds.Text):
    """A template: `$job` stands for the id of the job."""

    def check(self, value: Any, place: kinds.FieldPath) -> str:
        template = Template(super().check(value, place))
        if not template.is_valid():
            raise BadUse(str(place), "has a $ that no name follows; write $$ for a literal dollar sign")
        for name in template.get_identifiers():
            if name not in FILLED:
                known = ", ".join(f"${name}" for name in FILLED)
                raise BadUse(str(place), f"uses the unknown variable ${name}; use one of {known}")
        try:
            json.loads(template.substitute(dict.fromkeys(FILLED, "x") | {"attempt": "1"}))
        except ValueError as error:
            raise BadUse(str(place), f"does not make valid JSON ({error})") from error
        return template.template


BODY = BodyTemplate(
    r"[^\x00]+", f"a text of up to {LONGEST_BODY:,} characters", accepts=lambda text: len(text) <= LONGEST_BODY
)


class OnHookError(StrEnum):
    FAIL = "fail"
    SKIP = "skip"
    ALLOW = "allow"


class Format(StrEnum):
    CLOUDEVENTS = "cloudevents"
    SLACK = "slack"
    DISCORD = "discord"


class ActionKind(StrEnum):
    SKIP = "skip"
    RETRY_LATER = "retry_later"
    KILL_OLD = "kill_old"
    WAIT = "wait"
    WEBHOOK = "webhook"
    TRIGGER_JOB = "trigger_job"
    CALL = "call"


if TYPE_CHECKING:  # as you may give them
    AnyAction = ActionKind | Literal["skip", "retry_later", "kill_old", "wait", "webhook", "trigger_job", "call"]
    AnyFormat = Format | Literal["cloudevents", "slack", "discord"]
    AnyOnError = OnHookError | Literal["fail", "skip", "allow"]
    AnyTime = Duration
else:  # as they are kept
    AnyAction, AnyFormat, AnyOnError, AnyTime = ActionKind, Format, OnHookError, float


class Hook(Checked, frozen=True, kw_only=True, omit_defaults=True):
    """An HTTP request that must be answered with a status from 200 to 299."""

    one_of: ClassVar[tuple[str, ...]] = ("url", "url_env")

    url: Annotated[str | None, doc("URL to post to."), URL] = None
    url_env: Annotated[str | None, doc("Environment variable that holds the URL, if the URL is secret."), VARIABLE] = (
        None
    )
    secret_env: Annotated[str | None, doc("Variable with the secret that signs the request."), VARIABLE] = None
    token_env: Annotated[str | None, doc("Variable with a token for the header `Authorization`."), VARIABLE] = None
    timeout: Annotated[AnyTime, doc("Time for the answer."), kinds.Span("10ms", "5m")] = 10.0
    on_error: Annotated[
        AnyOnError,
        doc(
            "If the hook does not answer: `fail` the run, `skip` it, or `allow` it. "
            "For `post_run_hook`, `skip` acts like `allow`."
        ),
    ] = OnHookError.FAIL


class Check(Checked, frozen=True, kw_only=True, omit_defaults=True):
    """A constraint of your own: a job whose result decides."""

    job: Annotated[str, doc("Job that checks: it returns true, or the text of the violation."), kinds.JOB_WORD]
    timeout: Annotated[AnyTime, doc("Time for the answer."), kinds.POSITIVE_SPAN] = 60.0
    on_error: Annotated[AnyOnError, doc("If the check fails or is late: `fail` the run, `skip` it, or `allow` it.")] = (
        OnHookError.FAIL
    )


if TYPE_CHECKING:
    AnyHook = Hook | str | None  # as you may give them
    Checks = Sequence[Check | str]
    Names = Sequence[str]
else:
    AnyHook = Hook | None  # as they are kept
    Checks = tuple[Check, ...]
    Names = tuple[str, ...]

MAX_CONCURRENT, PREVIOUS, WINDOW = "max_concurrent_runs", "require_previous_success", "catch_up_window"
PRE_HOOK, POST_HOOK, CHECKS = "pre_run_hook", "post_run_hook", "checks"
EXPECTED, ALLOWED = "max_expected_run_time", "max_allowed_run_time"
BEFORE = (PREVIOUS, PRE_HOOK, CHECKS, WINDOW, MAX_CONCURRENT)  # constraints before a run, in the order of their checks
RECHECKED = (PREVIOUS, WINDOW, PRE_HOOK, CHECKS)


class Constraints(Checked, frozen=True, kw_only=True, omit_defaults=True):
    """Conditions on the runs of a job."""

    where: ClassVar[str] = "constraints"

    max_concurrent_runs: Annotated[
        int | None,
        doc("Most of its runs that may be live at once. By default, only scheduled occurrences exclude each other."),
        kinds.Whole(1),
    ] = None
    require_previous_success: Annotated[bool, doc("Whether the previous run must have succeeded.")] = False
    catch_up_window: Annotated[
        AnyTime | None, doc("Longest delay after its due time at which a run may still start."), kinds.Span()
    ] = None
    pre_run_hook: Annotated[AnyHook, doc("Request before a run."), Nested(Hook, "url")] = None
    checks: Annotated[Checks, doc("Jobs that must approve a run before it starts."), Several(Nested(Check, "job"))] = ()
    recheck_on_retry: Annotated[
        Names, doc("Constraints to check again before each retry."),
        kinds.Texts(kinds.Word("|".join(RECHECKED), f"one of {', '.join(RECHECKED)}"), make=tuple),
    ] = ()  # fmt: skip
    max_expected_run_time: Annotated[
        AnyTime | None, doc("Run time after which a run counts as late."), kinds.POSITIVE_SPAN
    ] = None
    max_allowed_run_time: Annotated[
        AnyTime | None,
        doc("Run time after which a run is asked to stop; the same as `max_runtime`."),
        kinds.POSITIVE_SPAN,
    ] = None
    post_run_hook: Annotated[AnyHook, doc("Request after a run has done its work."), Nested(Hook, "url")] = None

    def check(self) -> None:
        expected, allowed = self.max_expected_run_time, self.max_allowed_run_time
        if expected is not None and allowed is not None and checked(expected) > checked(allowed):
            raise BadValue(f"{self.where}.{EXPECTED}", expected, f"at most {ALLOWED} ({allowed})")
        for name in self.recheck_on_retry:
            if name not in self.before:
                raise BadUse(f"{self.where}.recheck_on_retry", f"names {name}, which is not set")

    @property
    def before(self) -> list[str]:
        """The constraints to check before a run, by name."""
        return [name for name in BEFORE if getattr(self, name) != getattr(NO_CONSTRAINTS, name)]


NO_CONSTRAINTS = Constraints()
EVENTS = ("on_constraint_violation", "on_failure", "on_success", "on_late")  # fields of a job with actions


Delay = Annotated[AnyTime, doc("For `retry_later`: time until constraints are checked again."), kinds.Span("1s")]
Limit = Annotated[
    AnyTime | None,
    doc("For `wait` and `retry_later`: longest time from the first violation. For `call`: longest time of its run."),
    kinds.POSITIVE_SPAN,
]
IfItFails = Annotated[
    AnyOnError, doc("If the action fails or reaches its limit: `fail` the run, `skip` it, or `allow` it.")
]

A = ActionKind
_HTTP = ("url", "url_env", "secret_env", "token_env", "timeout", "format", "body", "ordered", "give_up_after")
PARAMETERS: dict[ActionKind, tuple[str, ...]] = {
    A.SKIP: (),
    A.RETRY_LATER: ("delay", "limit", "on_error"),
    A.KILL_OLD: ("on_error",),
    A.WAIT: ("limit", "on_error"),
    A.WEBHOOK: (*_HTTP, "then"),
    A.TRIGGER_JOB: ("job", "payload", "then", "on_error"),
    A.CALL: ("job", "limit", "then", "on_error"),
}
"""action → its parameters"""
INFORM = (A.WEBHOOK, A.TRIGGER_JOB, A.CALL)
"""actions that decide nothing about a run"""


def check_parameters(action: "Decision | Action") -> None:
    refuse_others(action, action.action, PARAMETERS[ActionKind(action.action)], "a parameter", ("action",))


class Decision(Checked, frozen=True, kw_only=True, omit_defaults=True):
    """The decision on a run that violates a constraint."""

    action: Annotated[AnyAction, doc("`skip`, `retry_later`, `kill_old` or `wait`.")]
    delay: Delay = 60.0
    limit: Limit = None
    on_error: IfItFails = OnHookError.FAIL

    def check(self) -> None:
        if self.action in INFORM:
            decisions = ", ".join(action for action in A if action not in INFORM)
            raise BadValue("action", str(self.action), f"an action that decides; use one of {decisions}")
        check_parameters(self)


SKIP = Decision(action=A.SKIP)
WAIT = Decision(action=A.WAIT)

if TYPE_CHECKING:
    Then = Decision | str | None  # as you may give it
else:
    Then = Decision | None  # as it is kept


class Action(Checked, frozen=True, kw_only=True, omit_defaults=True):
    """An action: a decision on a run, or a message to somebody."""

    action: Annotated[AnyAction, doc("`skip`, `retry_later`, `kill_old`, `wait`, `webhook`, `trigger_job` or `call`.")]
    delay: Delay = 60.0
    limit: Limit = None
    url: Annotated[str | None, doc("For `webhook`: URL to post to."), URL] = None
    url_env: Annotated[str | None, doc("For `webhook`: variable with the URL, if that is a secret."), VARIABLE] = None
    secret_env: Annotated[
        str | None, doc("For `webhook`: variable with the secret that signs the request."), VARIABLE
    ] = None
    token_env: Annotated[
        str | None, doc("For `webhook`: variable with a token for the header `Authorization`."), VARIABLE
    ] = None
    timeout: Annotated[AnyTime, doc("For `webhook`: time for the answer to one try."), kinds.Span("10ms", "5m")] = 10.0
    format: Annotated[AnyFormat, doc("For `webhook`: `cloudevents`, `slack` or `discord`.")] = Format.CLOUDEVENTS
    body: Annotated[str | None, doc("For `webhook`: template of the body, JSON with `$job`, `$run` …"), BODY] = None
    ordered: Annotated[bool, doc("For `webhook`: whether requests to this target keep their order.")] = False
    give_up_after: Annotated[AnyTime, doc("For `webhook`: time for all tries."), kinds.Span("1s", "30d")] = 86400.0
    job: Annotated[str | None, doc("For `trigger_job` and `call`: job to run."), kinds.JOB_WORD] = None
    payload: Annotated[
        dict[str, Any] | None, doc("For `trigger_job`: arguments; by default the job's own."), Payload()
    ] = None
    then: Annotated[
        Then,
        doc("Decision to follow after this action; only in `on_constraint_violation`."),
        Nested(Decision, "action"),
    ] = None
    on_error: IfItFails = OnHookError.FAIL

    def check(self) -> None:
        check_parameters(self)
        if self.action is A.WEBHOOK and (self.url is None) == (self.url_env is None):
            raise MissingField("url") if self.url is None else BadUse("url", "cannot be combined with url_env")
        if self.action in (A.TRIGGER_JOB, A.CALL) and self.job is None:
            raise MissingField("job")
        if self.payload is not None:
            payload.encode(self.payload, "payload")
        if self.body is not None and self.format is not Format.CLOUDEVENTS:
            raise BadUse("body", f"cannot be combined with format {self.format}")

    @property
    def decision(self) -> Decision:
        if self.action in INFORM:
            assert not isinstance(self.then, str)
            return self.then or SKIP
        return Decision(action=self.action, delay=self.delay, limit=self.limit, on_error=self.on_error)


if TYPE_CHECKING:
    Actions = Action | str | Sequence[Action | str]  # as you may give them
else:
    Actions = tuple[Action, ...]  # as they are kept

ACTIONS = Several(Nested(Action, "action"))


class Violation(msgspec.Struct, frozen=True):
    """A constraint that a run violated."""

    constraint: str
    message: str
    at: Time


def check_actions(field: str, actions: Sequence[Action], decides: bool) -> None:
    """Check the actions of one event of a job: on a violation the last one decides, elsewhere none does."""
    for index, action in enumerate(actions):
        name = field if len(actions) == 1 else f"{field}[{index}]"
        if not decides and action.action not in INFORM:
            advice = f"use one of {', '.join(INFORM)}"
            raise NotHere(f"{name}.action", str(action.action), "once the run has started", advice)
        if not decides and action.then is not None:
            raise BadUse(f"{name}.then", "is allowed only in on_constraint_violation")
        if decides and index < len(actions) - 1 and (action.action not in INFORM or action.then is not None):
            raise BadUse(name, "decides about the run, so it must be the last action")


class ViolationEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A run violated a constraint, or is late."""

    stream: ClassVar = "violation"  # which tells it from the events of sessions, which share its log

    run_id: Annotated[str, doc("Id of the run.")]
    job_id: Annotated[str, doc("Job of the run.")]
    tenant: Annotated[str, doc("Tenant of the run.")]
    at: Annotated[Time, doc("Time.")]
    constraint: Annotated[str, doc("Constraint, such as `max_concurrent_runs`.")]
    message: Annotated[str, doc("Violation, in words.")]

    @property
    def log(self) -> str:
        return f"@sessions:{self.tenant}"
