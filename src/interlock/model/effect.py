"""Effects: work that the core asks of the outside, after the commit. The answer comes back as a command."""

from typing import ClassVar

import msgspec


class Effect(msgspec.Struct, frozen=True, gc=False):
    """Work for a run, identified by kind, run and `seq`; a change of the run's `seq` voids it."""

    limit: ClassVar[float] = 5.0  # seconds for the answer; after that the core asks again
    run_id: str
    seq: int


class ReadInputs(Effect, frozen=True, gc=False):
    """Read the payloads and the last checkpoint of a dispatched run. The answer has them all."""
