"""The jobs a scheduler knows, and the check of a payload against each."""

from collections.abc import Callable
from difflib import get_close_matches

import msgspec

from interlock.model.error import UnknownJob
from interlock.model.job import Job

PayloadCheck = Callable[[bytes], None]
"""raises `BadPayload` naming the argument"""
PayloadMark = Callable[[bytes], bytes]
"""marks what the handler takes as secrets"""


class Entry(msgspec.Struct, frozen=True):
    job: Job
    check: PayloadCheck
    mark: PayloadMark | None = None
    """None if the handler takes none"""


class Catalog:
    def __init__(self, entries: list[Entry]) -> None:
        self._entries = {entry.job.id: entry for entry in entries}

    def jobs(self) -> list[Job]:
        return [entry.job for entry in self._entries.values()]

    def get(self, job_id: str) -> Entry:
        entry = self._entries.get(job_id)
        if entry is None:
            close = get_close_matches(job_id, self._entries, 1)
            raise UnknownJob(job_id, close[0] if close else None)
        return entry
