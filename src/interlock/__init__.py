"""Interlock: a job scheduler and orchestrator for work that must not go wrong."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interlock.app import App
    from interlock.client.handle import RunHandle
    from interlock.client.http.async_client import AsyncClient
    from interlock.client.http.client import BlockingRunHandle, Client
    from interlock.client.submission import new_run as run
    from interlock.model.error import Draining, Fatal, InterlockError, RunEnded, WaitTimeout
    from interlock.model.job import Retry
    from interlock.model.run_view import RunInfo
    from interlock.model.schedules import Constraints, at, cron, every, once
    from interlock.model.secret import Secret
    from interlock.model.state import State
    from interlock.supervision.spec import Alive, Backoff, Budget, Limits, Ready
    from interlock.worker.context import Context
    from interlock.worker.service import ServiceContext

__version__ = "0.1.0"

__all__ = [
    "Alive",
    "App",
    "AsyncClient",
    "Backoff",
    "BlockingRunHandle",
    "Budget",
    "Client",
    "Constraints",
    "Context",
    "Draining",
    "Fatal",
    "InterlockError",
    "Limits",
    "Ready",
    "Retry",
    "RunEnded",
    "RunHandle",
    "RunInfo",
    "Secret",
    "ServiceContext",
    "State",
    "WaitTimeout",
    "at",
    "cron",
    "every",
    "once",
    "run",
]

# A command must start at once: each name is imported when it is first used, and only what it needs.
_WHERE = {
    "Alive": "supervision.spec",
    "App": "app",
    "AsyncClient": "client.http.async_client",
    "Backoff": "supervision.spec",
    "BlockingRunHandle": "client.http.client",
    "Budget": "supervision.spec",
    "Client": "client.http.client",
    "Constraints": "model.schedules",
    "Context": "worker.context",
    "Draining": "model.error",
    "Fatal": "model.error",
    "InterlockError": "model.error",
    "Limits": "supervision.spec",
    "Ready": "supervision.spec",
    "Retry": "model.job",
    "RunEnded": "model.error",
    "RunHandle": "client.handle",
    "RunInfo": "model.run_view",
    "Secret": "model.secret",
    "ServiceContext": "worker.service",
    "State": "model.state",
    "WaitTimeout": "model.error",
    "at": "model.schedules",
    "cron": "model.schedules",
    "every": "model.schedules",
    "once": "model.schedules",
    "run": "client.submission",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"interlock.{_WHERE[name]}"), "new_run" if name == "run" else name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(globals().keys() | _WHERE.keys())
