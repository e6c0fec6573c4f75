"""Supervision trees: children that are started in order, kept up, and stopped in reverse order."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interlock.model.child_info import Change, ChildInfo, Exit, Kept, ServiceAction, Status
    from interlock.model.error import CannotStart
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
        Limits,
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

# A worker whose app declares a service needs the words for it and not the machinery: each name is imported when it is
# first used.
_WHERE = {
    "model.child_info": ("Change", "ChildInfo", "Exit", "Kept", "ServiceAction", "Status"),
    "model.error": ("CannotStart",),
    "ports.handover": ("Handover", "MemoryHandover"),
    "supervision.function": ("ChildContext",),
    "supervision.instance": ("Birth", "Instance"),
    "supervision.supervisor": ("Supervisor",),
    "supervision.watches": ("Watch",),
}
_PLACES = {name: module for module, names in _WHERE.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"interlock.{_PLACES.get(name, 'supervision.spec')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(globals().keys() | set(__all__))
