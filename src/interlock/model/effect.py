"""What the core asks of the outside, to be done after the commit. The answer comes back as a command."""

from typing import ClassVar

import msgspec


class Effect(msgspec.Struct, frozen=True, gc=False):
    """Something to do for a run. Kind, run and `seq` identify it; once the run has another `seq`, it is void."""

    limit: ClassVar[float] = 5.0
    """seconds for the answer; after that the core asks again"""
    run_id: str
    seq: int


class ReadInputs(Effect, frozen=True, gc=False):
    """Read the payload and the last checkpoint of a dispatched run. The answer is both."""
