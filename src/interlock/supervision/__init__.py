"""Supervision trees: children that are started in order, kept up, and stopped in reverse order."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interlock.model.child_info import Change, ChildInfo, Exit, Kept, ServiceAction, Status
    from interlock.model.error import CannotStart
    from interlock.model.work import Limits
    from interlock.ports.handover import Handover, MemoryHandover
    from interlock.supervision.function import ChildContext
    from interlock.supervision.instance import Birth, Instance
    from interlock.supervision.spec import (
        Alive,
        Backoff,
        Budget,
        Child,
        Container,
        Custom,
        Function,
        Group,
        OnExhausted,
        Process,
        Ready,
        Restart,
        Strategy,
    )
    from interlock.supervision.supervisor import Supervisor
    from interlock.supervision.watches import Watch

__all__ = [
    "Alive",
    "Backoff",
    "Birth",
    "Budget",
    "CannotStart",
    "Change",
    "Child",
    "ChildContext",
    "ChildInfo",
    "Container",
    "Custom",
    "Exit",
    "Function",
    "Group",
    "Handover",
    "Instance",
    "Kept",
    "Limits",
    "MemoryHandover",
    "OnExhausted",
    "Process",
    "Ready",
    "Restart",
    "ServiceAction",
    "Status",
    "Strategy",
    "Supervisor",
    "Watch",
]

# A worker whose app declares a service needs the names of the specification and not the machinery: each module is
# imported when one of its names is first used.
_MODULES = ("supervision.spec", "model.child_info", "model.error", "ports.handover", "supervision.instance")
_MACHINERY = ("supervision.function", "supervision.watches", "supervision.supervisor")


def __getattr__(name: str) -> Any:
    if name in __all__:
        from importlib import import_module

        for module in map(import_module, (f"interlock.{one}" for one in (*_MODULES, *_MACHINERY))):
            if name in vars(module):
                globals()[name] = vars(module)[name]
                return vars(module)[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(globals().keys() | set(__all__))
