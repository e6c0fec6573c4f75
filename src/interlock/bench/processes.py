"""Processes that end with their parent."""

import ctypes
import os
import signal
import threading
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)  # a new process unblocks them


def with_parent() -> Callable[[], None] | None:
    """Return the `preexec_fn` for a process that gets SIGTERM when this one ends, however it ends.

    None in any thread but the main one: the system takes the end of the thread for that of the parent."""
    if threading.current_thread() is not threading.main_thread():
        return None
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def become() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        if os.getppid() != parent:
            os._exit(1)

    return become
