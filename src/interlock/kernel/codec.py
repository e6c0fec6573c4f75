"""Requests and verdicts as messages, and back."""

from msgspec.structs import asdict

from interlock.kernel import policy_pb2 as wire
from interlock.model.policy import PolicyRequest, Ruling, RunLimits, Verdict

_NUMBERS = {one: wire.Ruling.Value(f"RULING_{one.upper()}") for one in Ruling}
_RULINGS = {number: one for one, number in _NUMBERS.items()}
_OPTIONAL = ("max_runtime", "max_retries", "max_output", "max_concurrent", "sandbox")


def to_request(request: PolicyRequest) -> wire.Request:
    return wire.Request(**asdict(request))


def from_request(message: wire.Request) -> PolicyRequest:
    return PolicyRequest(
        job=message.job,
        topic=message.topic,
        tenant=message.tenant,
        actor=message.actor,
        priority=message.priority,
        lane=message.lane,
        session=message.session if message.HasField("session") else None,
        origin=message.origin if message.HasField("origin") else None,
        capabilities=tuple(message.capabilities),
        risk_tags=tuple(message.risk_tags),
        requires=tuple(message.requires),
        labels=dict(message.labels),
        job_version=message.job_version,
        payload=message.payload,
        secrets=message.secrets,
    )


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
    """Raise `KeyError` for an unknown ruling, `BadValue` for a limit that cannot be."""
    limits = None
    if message.HasField("limits"):
        given = {name: getattr(message.limits, name) for name in _OPTIONAL if message.limits.HasField(name)}
        for name in ("environment", "tools"):
            if message.limits.HasField(name):
                given[name] = tuple(getattr(message.limits, name).names)
        limits = RunLimits(**given)
    return Verdict(
        ruling=_RULINGS[message.ruling],
        rule=message.rule,
        reason=message.reason,
        limits=limits,
        policy=digest,
        notes=tuple(message.notes),
    )
