"""Supervision trees: children that are started in order, kept up, and stopped in reverse order."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interlock.model.child_info import Change as Change
    from interlock.model.child_info import ChildInfo as ChildInfo
    from interlock.model.child_info import Exit as Exit
    from interlock.model.child_info import Kept as Kept
    from interlock.model.child_info import ServiceAction as ServiceAction
    from interlock.model.child_info import Status as Status
    from interlock.model.error import CannotStart as CannotStart
    from interlock.model.work import Limits as Limits
    from interlock.ports.handover import Handover as Handover
    from interlock.ports.handover import MemoryHandover as MemoryHandover
    from interlock.supervision.function import ChildContext as ChildContext
    from interlock.supervision.instance import Birth as Birth
    from interlock.supervision.instance import Instance as Instance
    from interlock.supervision.spec import Alive as Alive
    from interlock.supervision.spec import Backoff as Backoff
    from interlock.supervision.spec import Budget as Budget
    from interlock.supervision.spec import Child as Child
    from interlock.supervision.spec import Container as Container
    from interlock.supervision.spec import Custom as Custom
    from interlock.supervision.spec import Function as Function
    from interlock.supervision.spec import Group as Group
    from interlock.supervision.spec import OnExhausted as OnExhausted
    from interlock.supervision.spec import Process as Process
    from interlock.supervision.spec import Ready as Ready
    from interlock.supervision.spec import Restart as Restart
    from interlock.supervision.spec import Strategy as Strategy
    from interlock.supervision.supervisor import Supervisor as Supervisor
    from interlock.supervision.watches import Watch as Watch

# A worker whose app declares a service needs the names of the specification and not the machinery: the modules are
# imported in this order until one has the name.
_MODULES = ("supervision.spec", "model.child_info", "model.error", "ports.handover", "supervision.instance")
_MACHINERY = ("supervision.function", "supervision.watches", "supervision.supervisor")


def __getattr__(name: str) -> Any:
    # Lower case are the modules of this package, which the import system looks for here first.
    for module in (*_MODULES, *_MACHINERY) if name[0].isupper() else ():
        if (value := vars(import_module(f"interlock.{module}")).get(name)) is not None:
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
