"""Port: the circuit to the policy service, shared by all schedulers."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from interlock.policy.circuit import PolicyCircuit


class CircuitState(ABC):
    @abstractmethod
    async def change(self, change: Callable[[PolicyCircuit], PolicyCircuit]) -> PolicyCircuit:
        """Store and return what `change` makes of the stored circuit, in one transaction. It may be called again if
        another scheduler was faster. If it raises, nothing changes.

        This itself never fails: while the shared place is away, each scheduler changes a circuit of its own."""


class LocalCircuit(CircuitState):
    """The circuit of a scheduler that shares it with nobody."""

    def __init__(self) -> None:
        self._circuit = PolicyCircuit()

    async def change(self, change: Callable[[PolicyCircuit], PolicyCircuit]) -> PolicyCircuit:
        self._circuit = change(self._circuit)
        return self._circuit
