"""The helpers of a scheduler. Each starts when it is first needed."""

import logging

from interlock.config import Settings
from interlock.error import InterlockError
from interlock.model.child_info import ServiceAction
from interlock.policy.policy import Policy
from interlock.ports.store import Reader
from interlock.supervision import Child, Supervisor
from interlock.task_set import TaskSet
from interlock.wiring.inspector import INSPECTOR, inspector_child
from interlock.wiring.sender import sender_child

logger = logging.getLogger("interlock.scheduler")

SENDING = "sending"  # the group of the helpers, so that they stop after the engine


class Helpers:
    def __init__(self, tree: Supervisor, settings: Settings, app: str | None, reader: Reader) -> None:
        self._tree = tree
        self._settings = settings
        self._app = app
        self._reader = reader
        self._has_sender = self._has_inspector = False
        self._tasks = TaskSet()

    def have_sender(self) -> None:
        """Start the sender when there is something to send for the first time."""
        if not self._has_sender:
            self._has_sender = True
            self._tasks.begin(self._add(sender_child(self._settings, self._reader)))

    def have_inspector(self, policy: Policy | None) -> None:
        """Start the inspector when a policy has scanners for the first time."""
        output = None if policy is None else policy.output
        if output is not None and output.document.scanners and not self._has_inspector:
            self._has_inspector = True
            self._tasks.begin(self._add(inspector_child(self._settings, self._app, self._reader)))

    async def _add(self, child: Child) -> None:
        try:
            await self._tree.add(child, under=SENDING)
        except InterlockError as error:
            logger.error("the %s cannot be started: %s", child.name, error)

    async def restart_inspector(self) -> None:
        """Restart the inspector, if it runs, with the present code of the app."""
        if self._has_inspector:
            await self._tree.act(f"{SENDING}/{INSPECTOR}", ServiceAction.RESTART)

    def cancel(self) -> None:
        self._tasks.cancel()
