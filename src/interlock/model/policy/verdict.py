"""The words between a run and the policy: a request, the verdict, and the limits that come with it."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import msgspec

from interlock.fields.field import Checked, doc
from interlock.fields.field_types import POSITIVE_SPAN, Size, Text, Texts, Whole
from interlock.model.guard import AnyTime, Names

LARGEST_OUTPUT = 1 << 40


class Ruling(StrEnum):
    """The decision of a policy on a run."""

    ALLOW = "allow"
    CONSTRAIN = "allow_with_constraints"
    ASK = "require_approval"
    THROTTLE = "throttle"
    DENY = "deny"


LIMITED_NAME = Text("[!-~]{1,200}", "a name of up to 200 characters without spaces")
NAMES = Texts(LIMITED_NAME, make=tuple)


class RunLimits(Checked, frozen=True, kw_only=True, omit_defaults=True):
    """Limits that a verdict puts on a run, in addition to those of its job."""

    max_runtime: Annotated[AnyTime | None, doc("Longest run time."), POSITIVE_SPAN] = None
    max_retries: Annotated[int | None, doc("Most retries."), Whole(0)] = None
    max_output: Annotated[
        int | None, doc("Largest result, such as `1MB`; a larger one fails the run."), Size(0, LARGEST_OUTPUT)
    ] = None
    max_concurrent: Annotated[int | None, doc("Most runs under this rule that execute at once."), Whole(1)] = None
    environment: Annotated[
        tuple[str, ...] | None, doc("The only environment variables that a program gets; globs such as `AWS_*`."), NAMES
    ] = None
    sandbox: Annotated[str | None, doc("Sandbox that the worker must use; the job's code obeys it."), LIMITED_NAME] = (
        None
    )
    tools: Annotated[tuple[str, ...] | None, doc("The only tools that the job's code may use."), NAMES] = None


NO_LIMITS = RunLimits()


class PolicyRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that a policy knows of a run. The hash of an approval covers every field."""

    job: str
    topic: str
    tenant: str = "default"
    actor: str = ""  # who submitted it; the name of the schedule's origin for an occurrence
    behind: Names = ()  # others on whose behalf it runs: it may do nothing that one of them may not
    priority: str = "interactive"
    lane: str = "main"
    session: str | None = None
    origin: str | None = None  # what created it: None for a submit
    capabilities: Names = ()
    risk_tags: Names = ()
    requires: Names = ()
    labels: dict[str, str] = {}
    job_version: str = ""
    payload: bytes = b"{}"  # JSON
    secrets: bool = False  # whether the payload has arguments that are secret


def for_each_submitter(request: PolicyRequest) -> list[PolicyRequest]:
    """Return a request on behalf of each submitter alone, the latest last."""
    return [msgspec.structs.replace(request, actor=actor, behind=()) for actor in (*request.behind, request.actor)]


class Verdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    ruling: Ruling = msgspec.field(name="decision")  # as the API, the command line and files call it
    rule: str = ""  # id of the rule that decided; empty for the default, a tenant list or a filter
    reason: str = ""
    limits: RunLimits | None = None
    policy: str = ""  # digest of the policy
    notes: tuple[str, ...] = ()  # rules that could not be evaluated, and so did not match


STRICTNESS = (Ruling.ALLOW, Ruling.CONSTRAIN, Ruling.THROTTLE, Ruling.ASK, Ruling.DENY)  # the mildest first
UNEQUAL = "it runs on behalf of several submitters, for whom the policy has different limits"


def strictest(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the strictest of the verdicts on one run, each for one of its submitters: the run may do only what each of
    its submitters may do. Deny it if each demands other limits."""
    found = max(verdicts, key=lambda verdict: STRICTNESS.index(verdict.ruling))
    is_final = found.ruling in (Ruling.DENY, Ruling.THROTTLE)
    if not is_final and any(verdict.limits not in (None, found.limits) for verdict in verdicts):
        return msgspec.structs.replace(found, ruling=Ruling.DENY, reason=UNEQUAL)
    return found


def decoded(request: PolicyRequest) -> Any:
    """Return the payload of a request as values; None if it cannot be read."""
    try:
        return msgspec.json.decode(request.payload)
    except (msgspec.MsgspecError, RecursionError):
        return None
