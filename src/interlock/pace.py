"""How often a scheduler that is gone is tried again: by workers, by the sender and by clients."""

import msgspec

SOON = 30.0  # seconds of frequent attempts to reach a scheduler that is gone


class Pace(msgspec.Struct, frozen=True):
    """Seconds between two attempts; they double up to a limit."""

    first: float = 0.02
    soon: float = 0.1  # limit while it was there a moment ago: one that died is often back within seconds
    late: float = 0.5
    jitter: float = 0.0  # share by which a delay may be shorter

    def after(self, delay: float, gone: float = SOON) -> float:
        """Return the next delay between attempts to reach a scheduler that has been gone for this many seconds."""
        return min(max(self.first, delay * 2), self.soon if gone < SOON else self.late)
