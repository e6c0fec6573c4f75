"""The guards of a job: constraints on its runs, and actions when one is violated, is late, fails or succeeds."""

from collections.abc import Sequence
from enum import StrEnum
from string import Template
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

import msgspec

from interlock.model import payload
from interlock.model.doc import doc
from interlock.model.duration import Duration, checked
from interlock.model.error import BadUse, BadValue, MissingField
from interlock.model.field import Checked, Part, Several, fields_of
from interlock.model.field_types import JOB_NAME, NAME_RULE, Kind, Place, Schema, Span, Text, Texts, Whole, Word
from interlock.model.json_form import Time

LONGEST_URL = 2000
LONGEST_BODY = 16 * 1024  # characters of a template
DEEPEST = 16  # runs in a chain that each triggered the next
FILLED = ("run", "job", "tenant", "type", "state", "reason", "error", "attempt", "violations", "time", "id")
"""names that a template may use"""

OTHER_JOB = Word(JOB_NAME, NAME_RULE.format(128))
VARIABLE = Word("[A-Za-z_][A-Za-z0-9_]{0,127}", "the name of an environment variable")


class Payload(Kind):
    """Arguments of a run, as JSON; only a document's are checked here."""

    def check(self, value: Any, place: Place) -> Any:
        if place.document is not None:
            if not isinstance(value, dict):
                raise BadValue(str(place), value, "a mapping of arguments")
            payload.encode(value, str(place))
        return value

    def schema(self) -> Schema:
        return {"type": "object"}


def is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and len(text) <= LONGEST_URL


class Url(Text):
    def __init__(self) -> None:
        super().__init__("[!-~]+", "a URL that begins with http:// or https://", accepts=is_url)

    def check(self, value: Any, place: Place) -> str:
        if isinstance(value, str) and "@" in value.partition("://")[2].partition("/")[0]:
            raise BadUse(str(place), "must not contain a password; put the URL into a variable, and name it in url_env")
        return super().check(value, place)


URL = Url()


def template_fault(body: str) -> str | None:
    """Return what is wrong with the template of a body."""
    template = Template(body)
    if not template.is_valid():
        return "has a $ without a name behind it; write $$ for a dollar sign"
    unknown = [name for name in template.get_identifiers() if name not in FILLED]
    return f"uses ${unknown[0]}, which is unknown; use {', '.join(f'${name}' for name in FILLED)}" if unknown else None


class Body(Text):
    """A template: `$job` stands for the id of the job."""

    def __init__(self) -> None:
        expected = f"a text of up to {LONGEST_BODY:,} characters"
        super().__init__(r"[^\x00]+", expected, accepts=lambda text: len(text) <= LONGEST_BODY)

    def check(self, value: Any, place: Place) -> str:
        body = super().check(value, place)
        if (fault := template_fault(body)) is not None:
            raise BadUse(str(place), fault)
        return body


class OnError(StrEnum):
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
    AnyOnError = OnError | Literal["fail", "skip", "allow"]
    AnyTime = Duration
else:  # as they are kept
    AnyAction, AnyFormat, AnyOnError, AnyTime = ActionKind, Format, OnError, float


class Hook(Checked, frozen=True, kw_only=True, omit_defaults=True):
    """An HTTP request that must be answered with a status from 200 to 299."""

    one_of: ClassVar[tuple[str, ...]] = ("url", "url_env")

    url: Annotated[str | None, doc("URL to post to."), URL] = None
    url_env: Annotated[str | None, doc("Variable with the URL, if that is a secret."), VARIABLE] = None
    secret_env: Annotated[str | None, doc("Variable with the secret that signs the request."), VARIABLE] = None
    token_env: Annotated[str | None, doc("Variable with a token for the header `Authorization`."), VARIABLE] = None
    timeout: Annotated[AnyTime, doc("Time for the answer."), Span("10ms", "5m")] = 10.0
    on_error: Annotated[
        AnyOnError,
        doc("If nobody answers: `fail` the run, `skip` it, or `allow` it. After a run, `skip` also allows it."),
    ] = OnError.FAIL


class Check(Checked, frozen=True, kw_only=True, omit_defaults=True):
    """A constraint of your own: a job whose result decides."""

    job: Annotated[str, doc("Job that checks: it returns true, or the text of the violation."), OTHER_JOB]
    timeout: Annotated[AnyTime, doc("Time for the answer."), Span(positive=True)] = 60.0
    on_error: Annotated[AnyOnError, doc("If the check fails or is late: `fail` the run, `skip` it, or `allow` it.")] = (
        OnError.FAIL
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
RECHECKED = (PREVIOUS, WINDOW, PRE_HOOK, CHECKS)


class Constraints(Checked, frozen=True, kw_only=True, omit_defaults=True):
    """Conditions on the runs of a job."""

    where: ClassVar[str] = "constraints"

    max_concurrent_runs: Annotated[
        int | None, doc("Most of its runs that may be live at once; by default only occurrences exclude each other."),
        Whole(1),
    ] = None  # fmt: skip
    require_previous_success: Annotated[bool, doc("Whether the previous run must have succeeded.")] = False
    catch_up_window: Annotated[AnyTime | None, doc("Most time from its due time until a run may start."), Span()] = None
    pre_run_hook: Annotated[AnyHook, doc("Request before a run."), Part(Hook, "url")] = None
    checks: Annotated[Checks, doc("Jobs that check before a run."), Several(Part(Check, "job"))] = ()
    recheck_on_retry: Annotated[
        Names, doc("Constraints to check again before each retry."),
        Texts(Word("|".join(RECHECKED), f"one of {', '.join(RECHECKED)}"), make=tuple),
    ] = ()  # fmt: skip
    max_expected_run_time: Annotated[
        AnyTime | None, doc("Run time after which a run counts as late."), Span(positive=True)
    ] = None
    max_allowed_run_time: Annotated[
        AnyTime | None, doc("Run time after which a run is stopped; the same as `max_runtime`."), Span(positive=True)
    ] = None
    post_run_hook: Annotated[AnyHook, doc("Request after a run has done its work."), Part(Hook, "url")] = None

    def check(self) -> None:
        expected, allowed = self.max_expected_run_time, self.max_allowed_run_time
        if expected is not None and allowed is not None and checked(expected) > checked(allowed):
            raise BadValue(f"{self.where}.{EXPECTED}", expected, f"at most {ALLOWED} ({allowed})")
        for name in self.recheck_on_retry:
            if not getattr(self, name):
                raise BadUse(f"{self.where}.recheck_on_retry", f"names {name}, which is not set")

    @property
    def is_checked_before(self) -> bool:
        """Whether anything is checked before a run."""
        return bool(
            self.max_concurrent_runs is not None or self.require_previous_success or self.catch_up_window is not None
            or self.pre_run_hook or self.checks
        )  # fmt: skip


NO_CONSTRAINTS = Constraints()


A = ActionKind
_HTTP = ("url", "url_env", "secret_env", "token_env", "timeout", "format", "body", "ordered", "give_up_after")
PARAMETERS: dict[ActionKind, tuple[str, ...]] = {
    A.SKIP: (),
    A.RETRY_LATER: ("delay", "limit", "on_error"),
    A.KILL_OLD: ("on_error",),
    A.WAIT: ("limit", "on_error"),
    A.WEBHOOK: (*_HTTP, "then"),
    A.TRIGGER_JOB: ("job", "payload", "then", "on_error"),
    A.CALL: ("job", "then", "on_error"),
}
"""action → its parameters"""
INFORM = (A.WEBHOOK, A.TRIGGER_JOB, A.CALL)
"""actions that decide nothing about a run"""


def check_parameters(action: "Decision | Action") -> None:
    """Refuse parameters that the action does not have."""
    known = PARAMETERS[ActionKind(action.action)]
    for name, field in fields_of(type(action)).items():
        if name != "action" and name not in known and getattr(action, name) != field.default:
            raise BadUse(name, f"is not a parameter of {action.action}, which has {', '.join(known) or 'none'}")


class Decision(Checked, frozen=True, kw_only=True, omit_defaults=True):
    """What becomes of a run that violates a constraint."""

    action: Annotated[AnyAction, doc("`skip`, `retry_later`, `kill_old` or `wait`.")]
    delay: Annotated[AnyTime, doc("Of `retry_later`: time until constraints are checked again."), Span("1ms")] = 60.0
    limit: Annotated[
        AnyTime | None, doc("Of `wait` and `retry_later`: longest time from the first violation."), Span(positive=True)
    ] = None
    on_error: Annotated[
        AnyOnError, doc("If the action fails or reaches its limit: `fail` the run, `skip` it, or `allow` it.")
    ] = OnError.FAIL

    def check(self) -> None:
        if self.action in INFORM:
            decisions = ", ".join(one for one in A if one not in INFORM)
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
    delay: Annotated[AnyTime, doc("Of `retry_later`: time until constraints are checked again."), Span("1ms")] = 60.0
    limit: Annotated[
        AnyTime | None, doc("Of `wait` and `retry_later`: longest time from the first violation."), Span(positive=True)
    ] = None
    url: Annotated[str | None, doc("Of `webhook`: URL to post to."), URL] = None
    url_env: Annotated[str | None, doc("Of `webhook`: variable with the URL, if that is a secret."), VARIABLE] = None
    secret_env: Annotated[
        str | None, doc("Of `webhook`: variable with the secret that signs the request."), VARIABLE
    ] = None
    token_env: Annotated[
        str | None, doc("Of `webhook`: variable with a token for the header `Authorization`."), VARIABLE
    ] = None
    timeout: Annotated[AnyTime, doc("Of `webhook`: time for the answer to one try."), Span("10ms", "5m")] = 10.0
    format: Annotated[AnyFormat, doc("Of `webhook`: `cloudevents`, `slack` or `discord`.")] = Format.CLOUDEVENTS
    body: Annotated[str | None, doc("Of `webhook`: template of the body, JSON with `$job`, `$run` …"), Body()] = None
    ordered: Annotated[bool, doc("Of `webhook`: whether requests to this target keep their order.")] = False
    give_up_after: Annotated[AnyTime, doc("Of `webhook`: time for all tries."), Span("1s", "30d")] = 86400.0
    job: Annotated[str | None, doc("Of `trigger_job` and `call`: job to run."), OTHER_JOB] = None
    payload: Annotated[
        dict[str, Any] | None, doc("Of `trigger_job`: arguments; by default the job's own."), Payload()
    ] = None
    then: Annotated[Then, doc("After a message about a violation: the decision."), Part(Decision, "action")] = None
    on_error: Annotated[
        AnyOnError, doc("If the action fails or reaches its limit: `fail` the run, `skip` it, or `allow` it.")
    ] = OnError.FAIL

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

ACTIONS = Several(Part(Action, "action"))


class Violation(msgspec.Struct, frozen=True):
    """A constraint that a run violated."""

    constraint: str
    message: str
    at: float


def check_actions(field: str, actions: Sequence[Action], decides: bool) -> None:
    """Check the actions of one event of a job: on a violation the last one decides, elsewhere none does."""
    for place, one in enumerate(actions):
        name = field if len(actions) == 1 else f"{field}[{place}]"
        if not decides and one.action not in INFORM:
            raise BadValue(f"{name}.action", str(one.action), f"one of {', '.join(INFORM)}; the run has begun by then")
        if not decides and one.then is not None:
            raise BadUse(f"{name}.then", "is only for on_constraint_violation")
        if decides and place < len(actions) - 1 and (one.action not in INFORM or one.then is not None):
            raise BadUse(name, "decides what becomes of the run, and must be the last action")


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
