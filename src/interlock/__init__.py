"""Interlock: a job scheduler and orchestrator for work that must not go wrong."""

# ruff: noqa: I001 - one line for each name would be long

TYPE_CHECKING = False  # true for type checkers; `typing` itself takes long to import
if TYPE_CHECKING:
    from typing import Any

    from interlock import testing
    from interlock.app import App
    from interlock.client.handle import RunHandle
    from interlock.client.http.async_client import AsyncClient
    from interlock.client.http.client import BlockingRunHandle, Client
    from interlock.client.many import as_completed, gather
    from interlock.client.submission import Call
    from interlock.interface.run_builder import new_run as run
    from interlock.job_function import JobFunction
    from interlock.interface.approval_view import ApprovalDetail, ApprovalInfo
    from interlock.model.approval import Approved
    from interlock.model.audit import AuditEntry, AuditReport
    from interlock.error import (
        AlreadyResolved, BadConfig, BadCursor, BadDefinition, BadDuration, BadHandler, BadInput, BadJson, BadPayload,
        BadRequest, BadResult, BadSchedule, BadUse, BadValue, BodyTooLarge, CannotImport, CannotListen,
        CannotOpenDatabase, CannotStart, Conflict, ConnectionLost, DatabaseBehind, DatabaseDamaged, DatabaseGone,
        DatabaseMoved, DatabaseTooNew, Draining, DuplicateChild, DuplicateJob, DuplicateService, EventRefused, Fatal,
        Forbidden, HeadTooLarge, IdempotencyConflict, InterlockError, InvalidTransition, ItemFailed, LeaseLost,
        LifespanFailed, MethodNotAllowed, Missing, MissingField, MissingLibrary, MoveUnfinished, NeedsLinux, NoApproval,
        NoContainerEngine, NoRecord, NoStandby, NobodyLeads, NobodySignsIn, NotADatabase, NotAllowed, NotConnected,
        NotFound, NotHalted, NotJson, NotPrivate, NotPut, NotQuarantined, NotRunning, OutcomeUnknown, Overloaded,
        PayloadTooLarge, PolicyClosed, PolicyUnavailable, PortTaken, QueueFull, RecordDiffers, Refused, Rejected,
        RemoteError, RequestTimeout, RunCancelled, RunDebounced, RunDenied, RunEnded, RunFailed, RunNotEnded,
        RunOrphaned, RunPruned, RunQuarantined, RunSkipped, RunTimeout, SelfApproval, SocketInUse, StaleApproval,
        StaleEpoch, StoreInUse, StoreUnavailable, StreamCut, TenantLimit, TokenRefused, TokensNeeded, TooLarge,
        Unauthorized, Unavailable, UnknownBulk, UnknownChild, UnknownDelivery, UnknownField, UnknownJob, UnknownLane,
        UnknownLetter, UnknownRun, UnknownWorker, UnsupportedMediaType, WaitTimeout, WrongCertificate, WrongOrigin,
        WrongStatus,
    )  # fmt: skip
    from interlock.model.explanation import Explanation
    from interlock.model.failure import RetryAfter
    from interlock.model.delivery import DeliveryInfo, Notice
    from interlock.model.guard import Action, Check, Constraints, Decision, Hook, ViolationEvent
    from interlock.model.job import KeyLimitFields, Retry
    from interlock.model.job_info import JobEvent
    from interlock.model.lane import LaneEvent, LaneInfo
    from interlock.interface.letter_view import LetterDetail, LetterInfo
    from interlock.interface.run_view import (
        Chunk, ChunkEvent, Event, GapEvent, HelloEvent, HistoryEntry, LogEvent, LogLine, ProgressEvent, RunDetail,
        RunEvent, RunInfo, ServiceEvent, ServiceLogEvent,
    )  # fmt: skip
    from interlock.model.schedule.shortcuts import at, cron, every, once
    from interlock.fields.secret import BadSecret, Secret
    from interlock.model.overview import Overview
    from interlock.model.session import SessionFields
    from interlock.model.session_info import ActedOnSession, SessionEvent, SessionInfo
    from interlock.model.state import State
    from interlock.model.tenant import TenantFields, TenantInfo
    from interlock.model.work import Limits
    from interlock.model.pool import PoolInfo, WorkerInfo
    from interlock.supervision.spec import Alive, Backoff, Budget, Ready
    from interlock.worker.context import Context
    from interlock.worker.service import ServiceContext
    from interlock.worker.workflow_context import WorkflowContext

__version__ = "0.1.0"

__all__ = [
    "ActedOnSession", "Action", "Alive", "AlreadyResolved", "App", "ApprovalDetail", "ApprovalInfo", "Approved",
    "AsyncClient", "AuditEntry", "AuditReport", "Backoff", "BadConfig", "BadCursor", "BadDefinition", "BadDuration",
    "BadHandler", "BadInput", "BadJson", "BadPayload", "BadRequest", "BadResult", "BadSchedule", "BadSecret", "BadUse",
    "BadValue", "BlockingRunHandle", "BodyTooLarge", "Budget", "Call", "CannotImport", "CannotListen",
    "CannotOpenDatabase", "CannotStart", "Check", "Chunk", "ChunkEvent", "Client", "Conflict", "ConnectionLost",
    "Constraints", "Context", "DatabaseBehind", "DatabaseDamaged", "DatabaseGone", "DatabaseMoved", "DatabaseTooNew",
    "Decision", "DeliveryInfo", "Draining", "DuplicateChild", "DuplicateJob", "DuplicateService", "Event",
    "EventRefused", "Explanation", "Fatal", "Forbidden", "GapEvent", "HeadTooLarge", "HelloEvent", "HistoryEntry",
    "Hook", "IdempotencyConflict", "InterlockError", "InvalidTransition", "ItemFailed", "JobEvent", "JobFunction",
    "KeyLimitFields", "LaneEvent", "LaneInfo", "LeaseLost", "LetterDetail", "LetterInfo", "LifespanFailed", "Limits",
    "LogEvent", "LogLine", "MethodNotAllowed", "Missing", "MissingField", "MissingLibrary", "MoveUnfinished",
    "NeedsLinux", "NoApproval", "NoContainerEngine", "NoRecord", "NoStandby", "NobodyLeads", "NobodySignsIn",
    "NotADatabase", "NotAllowed", "NotConnected", "NotFound", "NotHalted", "NotJson", "NotPrivate", "NotPut",
    "NotQuarantined", "NotRunning", "Notice", "OutcomeUnknown", "Overloaded", "Overview", "PayloadTooLarge",
    "PolicyClosed", "PolicyUnavailable", "PoolInfo", "PortTaken", "ProgressEvent", "QueueFull", "Ready",
    "RecordDiffers", "Refused", "Rejected", "RemoteError", "RequestTimeout", "Retry", "RetryAfter", "RunCancelled",
    "RunDebounced", "RunDenied", "RunDetail", "RunEnded", "RunEvent", "RunFailed", "RunHandle", "RunInfo",
    "RunNotEnded", "RunOrphaned", "RunPruned", "RunQuarantined", "RunSkipped", "RunTimeout", "Secret", "SelfApproval",
    "ServiceContext", "ServiceEvent", "ServiceLogEvent", "SessionEvent", "SessionFields", "SessionInfo", "SocketInUse",
    "StaleApproval", "StaleEpoch", "State", "StoreInUse", "StoreUnavailable", "StreamCut", "TenantFields", "TenantInfo",
    "TenantLimit", "TokenRefused", "TokensNeeded", "TooLarge", "Unauthorized", "Unavailable", "UnknownBulk",
    "UnknownChild", "UnknownDelivery", "UnknownField", "UnknownJob", "UnknownLane", "UnknownLetter", "UnknownRun",
    "UnknownWorker", "UnsupportedMediaType", "ViolationEvent", "WaitTimeout", "WorkerInfo", "WorkflowContext",
    "WrongCertificate", "WrongOrigin", "WrongStatus", "as_completed", "at", "cron", "every", "gather", "once", "run",
    "testing",
]  # fmt: skip

# Programs must start at once: each name is imported when it is first used, with only what it needs.
_MODULES = {
    "app": "App",
    "client.handle": "RunHandle",
    "client.http.async_client": "AsyncClient",
    "client.http.client": "BlockingRunHandle Client",
    "client.many": "as_completed gather",
    "client.submission": "Call",
    "interface.run_builder": "run",
    "job_function": "JobFunction",
    "interface.approval_view": "ApprovalDetail ApprovalInfo",
    "model.approval": "Approved",
    "model.audit": "AuditEntry AuditReport",
    "model.explanation": "Explanation",
    "model.failure": "RetryAfter",
    "model.delivery": "DeliveryInfo Notice",
    "model.guard": "Action Check Constraints Decision Hook ViolationEvent",
    "model.job": "KeyLimitFields Retry",
    "model.job_info": "JobEvent",
    "model.lane": "LaneEvent LaneInfo",
    "model.overview": "Overview",
    "model.pool": "PoolInfo WorkerInfo",
    "interface.letter_view": "LetterDetail LetterInfo",
    "interface.run_view": (
        "Chunk ChunkEvent Event GapEvent HelloEvent HistoryEntry LogEvent LogLine ProgressEvent RunDetail RunEvent "
        "RunInfo ServiceEvent ServiceLogEvent"
    ),
    "model.schedule.shortcuts": "at cron every once",
    "fields.secret": "BadSecret Secret",
    "model.session": "SessionFields",
    "model.session_info": "ActedOnSession SessionEvent SessionInfo",
    "model.state": "State",
    "model.tenant": "TenantFields TenantInfo",
    "model.work": "Limits",
    "supervision.spec": "Alive Backoff Budget Ready",
    "worker.context": "Context",
    "worker.service": "ServiceContext",
    "worker.workflow_context": "WorkflowContext",
}
_WHERE = dict.fromkeys(__all__, "error")  # every name below no other module is an error
_WHERE |= {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> "Any":
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    if name == "testing":
        return import_module("interlock.testing")
    value = getattr(import_module(f"interlock.{_WHERE[name]}"), "new_run" if name == "run" else name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
