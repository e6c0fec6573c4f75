"""Requests and verdicts as messages, and back."""

from typing import Any

from msgspec.structs import asdict, replace

from interlock.error import InterlockError
from interlock.model.policy.verdict import PolicyRequest, Ruling, RunLimits, Verdict
from interlock.policy.output import Metadata
from interlock.policy.scan import Scan
from interlock.policy_service import policy_pb2 as wire

_NUMBERS = {one: wire.Ruling.Value(f"RULING_{one.upper()}") for one in Ruling}
_RULINGS = {number: one for one, number in _NUMBERS.items()}
_OPTIONAL = ("max_runtime", "max_retries", "max_output", "max_concurrent", "sandbox")


def to_request(request: PolicyRequest) -> wire.Request:
    return wire.Request(**asdict(request))


def from_request(message: wire.Request) -> PolicyRequest:
    given: dict[str, Any] = {name: getattr(message, name) for name in PolicyRequest.__struct_fields__}
    given |= {name: tuple(given[name]) for name in ("capabilities", "risk_tags", "requires", "behind")}
    given |= {name: None for name in ("session", "origin") if not message.HasField(name)}
    given["labels"] = dict(message.labels)
    return PolicyRequest(**given)


def to_verdict(verdict: Verdict) -> wire.Verdict:
    limits = None
    if verdict.limits is not None:
        limits = wire.Limits(**{name: getattr(verdict.limits, name) for name in _OPTIONAL})
        for name in ("environment", "tools"):
            if (names := getattr(verdict.limits, name)) is not None:
                getattr(limits, name).CopyFrom(wire.Names(names=names))
    return wire.Verdict(
        ruling=_NUMBERS[verdict.ruling], rule=verdict.rule, reason=verdict.reason, limits=limits, notes=verdict.notes
    )


def from_verdict(message: wire.Verdict, digest: str) -> Verdict:
    """Return the verdict in a message. An unknown ruling or an invalid limit denies."""
    limits, denied = None, Verdict(ruling=Ruling.DENY, rule=message.rule, reason="", policy=digest)
    if message.ruling not in _RULINGS:
        return replace(denied, reason=f"{message.ruling} is not a decision")
    if message.HasField("limits"):
        given = {name: getattr(message.limits, name) for name in _OPTIONAL if message.limits.HasField(name)}
        for name in ("environment", "tools"):
            if message.limits.HasField(name):
                given[name] = tuple(getattr(message.limits, name).names)
        try:
            limits = RunLimits(**given)
        except InterlockError as error:
            return replace(denied, reason=f"invalid limit: {error}")
    return Verdict(
        ruling=_RULINGS[message.ruling],
        rule=message.rule,
        reason=message.reason,
        limits=limits,
        policy=digest,
        notes=tuple(message.notes),
    )


def from_output(message: wire.Output) -> Metadata:
    return Metadata(
        topic=message.topic,
        tenant=message.tenant,
        sensitivity=message.sensitivity,
        size=max(message.size, len(message.content)),
        exit_code=message.exit_code if message.HasField("exit_code") else None,
    )


def to_output_answer(digest: str, scan: Scan, rule: str = "", reason: str = "") -> wire.OutputAnswer:
    return wire.OutputAnswer(
        digest=digest,
        decision=f"OUTPUT_DECISION_{scan.decision.upper()}",
        rule=rule,
        reason=reason,
        findings=[wire.Finding(**asdict(finding)) for finding in scan.findings],
        redacted=scan.redacted,
    )
