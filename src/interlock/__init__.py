"""Interlock: a job scheduler and orchestrator for work that must not go wrong."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interlock.app import App
    from interlock.client.handle import RunHandle
    from interlock.client.http.async_client import AsyncClient
    from interlock.client.http.client import BlockingRunHandle, Client
    from interlock.client.submitting import new_run as run
    from interlock.model.error import Draining, Fatal, InterlockError, RunEnded, WaitTimeout
    from interlock.model.job import Retry
    from interlock.model.secret import Secret
    from interlock.model.state import State
    from interlock.model.view import RunInfo
    from interlock.worker.context import Context

__version__ = "0.1.0"

__all__ = [
    "App",
    "AsyncClient",
    "BlockingRunHandle",
    "Client",
    "Context",
    "Draining",
    "Fatal",
    "InterlockError",
    "Retry",
    "RunEnded",
    "RunHandle",
    "RunInfo",
    "Secret",
    "State",
    "WaitTimeout",
    "run",
]

# A command must start at once: each name is imported when it is first used, and only what it needs.
_WHERE = {
    "App": "app",
    "AsyncClient": "client.http.async_client",
    "BlockingRunHandle": "client.http.client",
    "Client": "client.http.client",
    "Context": "worker.context",
    "Draining": "model.error",
    "Fatal": "model.error",
    "InterlockError": "model.error",
    "Retry": "model.job",
    "RunEnded": "model.error",
    "RunHandle": "client.handle",
    "RunInfo": "model.view",
    "Secret": "model.secret",
    "State": "model.state",
    "WaitTimeout": "model.error",
    "run": "client.submitting",
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
