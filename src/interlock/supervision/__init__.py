"""Supervision trees: children that are started in order, kept up, and stopped in reverse order.

- The tree is data. `spec.py` describes a child, its restarts and its health checks as frozen values that check
  themselves; `config/service_documents.py` makes the same values from documents. A reload compares two sets of values
  and acts only on the differences (`wiring/service_tree.py`).
- The decision is pure. `restart.py` turns policy, exit, budget and strategy into an action; time and chance are passed
  in. Tests cover the whole matrix.
- One task drives each child (`child.py`). The goal (`goal.py`) and one life of the child (`life.py`) are objects made
  anew each time: reports from a replaced instance reach nobody, and a request that arrives during a stop cannot change
  how that stop ends. Only `strategies.py` makes several children act as one, for `one_for_all` and `rest_for_one`.
- All kinds share one interface, `instance.py`: start, stop, kill, and a future that settles when nothing is left. They
  are `function.py`, `process.py`, `container.py`, and the supervisor itself.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interlock.error import CannotStart
    from interlock.model.child_info import Change, ChildInfo, Exit, Kept, ServiceAction, Status
    from interlock.model.work import Limits
    from interlock.ports.handover import Handover, MemoryHandover
    from interlock.supervision.function import ChildContext
    from interlock.supervision.goal import Watch
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

__all__ = [
    "Alive", "Backoff", "Birth", "Budget", "CannotStart", "Change", "Child", "ChildContext", "ChildInfo", "Container",
    "Custom", "Exit", "Function", "Group", "Handover", "Instance", "Kept", "Limits", "MemoryHandover", "OnExhausted",
    "Process", "Ready", "Restart", "ServiceAction", "Status", "Strategy", "Supervisor", "Watch",
]  # fmt: skip

# A worker whose app declares a service needs the names of the specification and not the machinery: the modules are
# imported in this order until one has the name.
_MODULES = ("supervision.spec", "model.child_info", "error", "ports.handover", "supervision.instance")
_MACHINERY = ("supervision.function", "supervision.goal", "supervision.supervisor")


def __getattr__(name: str) -> Any:
    for module in (*_MODULES, *_MACHINERY) if name in __all__ else ():
        if (value := vars(import_module(f"interlock.{module}")).get(name)) is not None:
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(globals().keys() | set(__all__))
