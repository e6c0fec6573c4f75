"""Interlock: a job scheduler and orchestrator for work that must not go wrong."""

from interlock.app import App
from interlock.client.handle import RunHandle
from interlock.client.submitting import new_run as run
from interlock.model.error import Draining, Fatal, InterlockError, RunEnded, WaitTimeout
from interlock.model.job import Retry
from interlock.model.state import State
from interlock.worker.context import Context

__version__ = "0.1.0"

__all__ = [
    "App",
    "Context",
    "Draining",
    "Fatal",
    "InterlockError",
    "Retry",
    "RunEnded",
    "RunHandle",
    "State",
    "WaitTimeout",
    "run",
]
