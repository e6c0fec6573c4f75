"""Functions that jobs name themselves: loaded when they are first needed, and kept."""

import importlib

from interlock.model.error import BadHandler, CannotImport
from interlock.model.job import Job
from interlock.worker.app_loader import load_function
from interlock.worker.definition import Definition

MOST_KEPT = 1_000
"""definitions; what is loaded for them stays loaded in any case"""


class Functions:
    def __init__(self) -> None:
        self._definitions: dict[str, Definition] = {}
        """by the name of the function: many jobs may share one, and each definition has the id of the first"""

    def known(self, function: str) -> Definition | None:
        """If it has been loaded already."""
        return self._definitions.get(function)

    def load(self, job_id: str, function: str) -> Definition:
        """In the thread that calls, which may take as long as it likes; `CannotImport` says what is wrong. What could
        not be loaded is tried anew the next time."""
        # It may have been written since the last look at its folder.
        importlib.invalidate_caches()
        handler = load_function(function)
        try:
            definition = Definition(Job(id=job_id), handler)
        except BadHandler as error:
            raise CannotImport(function, str(error), "function") from error
        if len(self._definitions) >= MOST_KEPT:
            self._definitions.clear()
        self._definitions[function] = definition
        return definition
