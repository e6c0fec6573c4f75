"""The platform of servers and workers: Linux, and an event loop, uvloop's where it is installed."""

import sys

from interlock.error import NeedsLinux

__all__ = ["new_event_loop", "require_linux", "run"]

try:
    from uvloop import new_event_loop, run
except ImportError:
    from asyncio import new_event_loop, run  # type: ignore[assignment] # it takes the same coroutine


def require_linux() -> None:
    """Raise `NeedsLinux` on any other platform."""
    if sys.platform != "linux":
        raise NeedsLinux(sys.platform)
