"""What happened in a simulation, in order: for people, and as a hash that tells two runs of a seed apart."""

import hashlib
from collections import deque

from soak.simulation.loop import VirtualLoop

TAIL = 400  # lines kept for a person to read


class Trace:
    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._hash = hashlib.blake2b(digest_size=16)
        self._tail: deque[str] = deque(maxlen=TAIL)
        self.faults = 0

    def add(self, text: str) -> None:
        self.faults += text.startswith("fault:")
        line = f"{self._loop.time():10.3f}  {text}"
        self._hash.update(line.encode() + b"\n")
        self._tail.append(line)

    def digest(self) -> str:
        return self._hash.hexdigest()

    def tail(self, lines: int = TAIL) -> list[str]:
        return list(self._tail)[-lines:]
