from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Ruling(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RULING_UNSPECIFIED: _ClassVar[Ruling]
    RULING_ALLOW: _ClassVar[Ruling]
    RULING_ALLOW_WITH_CONSTRAINTS: _ClassVar[Ruling]
    RULING_REQUIRE_APPROVAL: _ClassVar[Ruling]
    RULING_THROTTLE: _ClassVar[Ruling]
    RULING_DENY: _ClassVar[Ruling]

class OutputDecision(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTPUT_DECISION_UNSPECIFIED: _ClassVar[OutputDecision]
    OUTPUT_DECISION_ALLOW: _ClassVar[OutputDecision]
    OUTPUT_DECISION_REDACT: _ClassVar[OutputDecision]
    OUTPUT_DECISION_QUARANTINE: _ClassVar[OutputDecision]
    OUTPUT_DECISION_DENY: _ClassVar[OutputDecision]
RULING_UNSPECIFIED: Ruling
RULING_ALLOW: Ruling
RULING_ALLOW_WITH_CONSTRAINTS: Ruling
RULING_REQUIRE_APPROVAL: Ruling
RULING_THROTTLE: Ruling
RULING_DENY: Ruling
OUTPUT_DECISION_UNSPECIFIED: OutputDecision
OUTPUT_DECISION_ALLOW: OutputDecision
OUTPUT_DECISION_REDACT: OutputDecision
OUTPUT_DECISION_QUARANTINE: OutputDecision
OUTPUT_DECISION_DENY: OutputDecision

class Request(_message.Message):
    __slots__ = ("job", "topic", "tenant", "actor", "priority", "lane", "session", "origin", "capabilities", "risk_tags", "requires", "labels", "job_version", "payload", "secrets", "behind")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    JOB_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    RISK_TAGS_FIELD_NUMBER: _ClassVar[int]
    REQUIRES_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    JOB_VERSION_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    SECRETS_FIELD_NUMBER: _ClassVar[int]
    BEHIND_FIELD_NUMBER: _ClassVar[int]
    job: str
    topic: str
    tenant: str
    actor: str
    priority: str
    lane: str
    session: str
    origin: str
    capabilities: _containers.RepeatedScalarFieldContainer[str]
    risk_tags: _containers.RepeatedScalarFieldContainer[str]
    requires: _containers.RepeatedScalarFieldContainer[str]
    labels: _containers.ScalarMap[str, str]
    job_version: str
    payload: bytes
    secrets: bool
    behind: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job: _Optional[str] = ..., topic: _Optional[str] = ..., tenant: _Optional[str] = ..., actor: _Optional[str] = ..., priority: _Optional[str] = ..., lane: _Optional[str] = ..., session: _Optional[str] = ..., origin: _Optional[str] = ..., capabilities: _Optional[_Iterable[str]] = ..., risk_tags: _Optional[_Iterable[str]] = ..., requires: _Optional[_Iterable[str]] = ..., labels: _Optional[_Mapping[str, str]] = ..., job_version: _Optional[str] = ..., payload: _Optional[bytes] = ..., secrets: _Optional[bool] = ..., behind: _Optional[_Iterable[str]] = ...) -> None: ...

class Names(_message.Message):
    __slots__ = ("names",)
    NAMES_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, names: _Optional[_Iterable[str]] = ...) -> None: ...

class Limits(_message.Message):
    __slots__ = ("max_runtime", "max_retries", "max_output", "max_concurrent", "environment", "sandbox", "tools")
    MAX_RUNTIME_FIELD_NUMBER: _ClassVar[int]
    MAX_RETRIES_FIELD_NUMBER: _ClassVar[int]
    MAX_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    MAX_CONCURRENT_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    max_runtime: float
    max_retries: int
    max_output: int
    max_concurrent: int
    environment: Names
    sandbox: str
    tools: Names
    def __init__(self, max_runtime: _Optional[float] = ..., max_retries: _Optional[int] = ..., max_output: _Optional[int] = ..., max_concurrent: _Optional[int] = ..., environment: _Optional[_Union[Names, _Mapping]] = ..., sandbox: _Optional[str] = ..., tools: _Optional[_Union[Names, _Mapping]] = ...) -> None: ...

class Verdict(_message.Message):
    __slots__ = ("ruling", "rule", "reason", "limits", "notes")
    RULING_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    ruling: Ruling
    rule: str
    reason: str
    limits: Limits
    notes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ruling: _Optional[_Union[Ruling, str]] = ..., rule: _Optional[str] = ..., reason: _Optional[str] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ..., notes: _Optional[_Iterable[str]] = ...) -> None: ...

class Answer(_message.Message):
    __slots__ = ("digest", "verdict")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    digest: str
    verdict: Verdict
    def __init__(self, digest: _Optional[str] = ..., verdict: _Optional[_Union[Verdict, _Mapping]] = ...) -> None: ...

class Frame(_message.Message):
    __slots__ = ("id", "requests", "again")
    ID_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    AGAIN_FIELD_NUMBER: _ClassVar[int]
    id: int
    requests: _containers.RepeatedCompositeFieldContainer[Request]
    again: bool
    def __init__(self, id: _Optional[int] = ..., requests: _Optional[_Iterable[_Union[Request, _Mapping]]] = ..., again: _Optional[bool] = ...) -> None: ...

class Answers(_message.Message):
    __slots__ = ("id", "digest", "verdicts")
    ID_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    VERDICTS_FIELD_NUMBER: _ClassVar[int]
    id: int
    digest: str
    verdicts: _containers.RepeatedCompositeFieldContainer[Verdict]
    def __init__(self, id: _Optional[int] = ..., digest: _Optional[str] = ..., verdicts: _Optional[_Iterable[_Union[Verdict, _Mapping]]] = ...) -> None: ...

class Output(_message.Message):
    __slots__ = ("topic", "tenant", "sensitivity", "size", "exit_code", "content", "content_type")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    SENSITIVITY_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    tenant: str
    sensitivity: str
    size: int
    exit_code: int
    content: bytes
    content_type: str
    def __init__(self, topic: _Optional[str] = ..., tenant: _Optional[str] = ..., sensitivity: _Optional[str] = ..., size: _Optional[int] = ..., exit_code: _Optional[int] = ..., content: _Optional[bytes] = ..., content_type: _Optional[str] = ...) -> None: ...

class Finding(_message.Message):
    __slots__ = ("scanner", "kind", "path", "start", "end", "note")
    SCANNER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    scanner: str
    kind: str
    path: str
    start: int
    end: int
    note: str
    def __init__(self, scanner: _Optional[str] = ..., kind: _Optional[str] = ..., path: _Optional[str] = ..., start: _Optional[int] = ..., end: _Optional[int] = ..., note: _Optional[str] = ...) -> None: ...

class OutputAnswer(_message.Message):
    __slots__ = ("digest", "decision", "rule", "reason", "findings", "redacted")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    REDACTED_FIELD_NUMBER: _ClassVar[int]
    digest: str
    decision: OutputDecision
    rule: str
    reason: str
    findings: _containers.RepeatedCompositeFieldContainer[Finding]
    redacted: bytes
    def __init__(self, digest: _Optional[str] = ..., decision: _Optional[_Union[OutputDecision, str]] = ..., rule: _Optional[str] = ..., reason: _Optional[str] = ..., findings: _Optional[_Iterable[_Union[Finding, _Mapping]]] = ..., redacted: _Optional[bytes] = ...) -> None: ...
