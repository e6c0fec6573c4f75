"""The engine's settings."""

import msgspec

from interlock.core.state import Limits

LONGEST_WAIT = 1.0  # seconds until a jump of the wall clock is noticed


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    limits: Limits = Limits()
    lease_ttl: float = 10.0
    batch_runs: int = 2000  # runs that one pass takes in at most
    cell: str = "main"  # the name of its lease, and of what it owns: positions are those of the cell
    holder: str = "scheduler"
    instance: str = ""  # the id of this start; a worker of an earlier one finishes its work and leaves
    longest_wait: float = LONGEST_WAIT
