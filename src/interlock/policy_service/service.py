"""The gRPC service as `policy.proto` describes it; requests and verdicts as messages, and back."""

from typing import Any

import grpc
from google.protobuf.message_factory import GetMessageClass
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


SERVICE = wire.DESCRIPTOR.services_by_name["PolicyService"]
NAME: str = SERVICE.full_name


def _kind(method: Any) -> str:
    return "stream_stream" if method.client_streaming else "unary_unary"


class PolicyServiceStub:
    """The methods of the service, on a channel of gRPC or of its asyncio."""

    def __init__(self, channel: Any) -> None:
        for method in SERVICE.methods:
            call = getattr(channel, _kind(method))(
                f"/{NAME}/{method.name}",
                request_serializer=GetMessageClass(method.input_type).SerializeToString,
                response_deserializer=GetMessageClass(method.output_type).FromString,
            )
            setattr(self, method.name, call)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{NAME} has no method {name!r}")


def add_service(service: object, server: Any) -> None:
    """Serve the methods that `service` has."""
    handlers = {
        method.name: getattr(grpc, f"{_kind(method)}_rpc_method_handler")(
            getattr(service, method.name),
            request_deserializer=GetMessageClass(method.input_type).FromString,
            response_serializer=GetMessageClass(method.output_type).SerializeToString,
        )
        for method in SERVICE.methods
        if hasattr(service, method.name)
    }
    server.add_registered_method_handlers(NAME, handlers)
