"""Processes of this machine: their ends are noticed by the system, whatever becomes of their links."""

import asyncio
import logging
import os
from collections.abc import Callable

from interlock.worker.identity import process_of

logger = logging.getLogger("interlock.links")


class ProcessWatch:
    def __init__(self) -> None:
        self._watched: dict[int, tuple[int, Callable[[], None]]] = {}

    def watch_worker(self, worker_id: str, call: Callable[[], None]) -> None:
        """Call when the process of a worker without a link ends: at once if it has, never if that cannot be known."""
        pid = process_of(worker_id)
        if pid == 0:
            asyncio.get_running_loop().call_soon(call)
        elif pid is not None and pid not in self._watched:
            self.watch(pid, call)

    def watch(self, pid: int, call: Callable[[], None]) -> None:
        """Call when a process ends. A new link of the same process replaces its earlier watch."""
        loop = asyncio.get_running_loop()
        known = self._watched.get(pid)
        try:
            pidfd = known[0] if known is not None else os.pidfd_open(pid)
        except ProcessLookupError:
            loop.call_soon(call)
            return
        except OSError as error:
            logger.warning("process %d cannot be watched; its end is noticed only by its silence: %s", pid, error)
            return
        self._watched[pid] = (pidfd, call)
        if known is None:
            loop.add_reader(pidfd, self._ended, pid)

    def _ended(self, pid: int) -> None:
        _, call = self._watched[pid]
        self._forget(pid)
        call()

    def _forget(self, pid: int) -> None:
        pidfd, _ = self._watched.pop(pid)
        asyncio.get_running_loop().remove_reader(pidfd)
        os.close(pidfd)

    def close(self) -> None:
        for pid in list(self._watched):
            self._forget(pid)
