"""Tests of jobs: a context to call a function with, and a scheduler in memory on virtual time."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from interlock.testing.finished_run import FinishedRun
    from interlock.testing.recorded_context import RecordedContext, context
    from interlock.testing.recorded_run import replay
    from interlock.testing.virtual_scheduler import VirtualScheduler, scheduler

__all__ = ["FinishedRun", "RecordedContext", "VirtualScheduler", "context", "replay", "scheduler"]

_WHERE = {
    "FinishedRun": "finished_run",
    "RecordedContext": "recorded_context",
    "context": "recorded_context",
    "replay": "recorded_run",
}


def __getattr__(name: str) -> "Any":
    # Loading the fixtures must not load a scheduler.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_WHERE.get(name, 'virtual_scheduler')}"), name)
