"""The jobs a scheduler is told of at its start or at a reload, where they come from, and the check of a payload against
each. Jobs that were put are in its state, and take any object."""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from itertools import islice

import msgspec

from interlock.model import payload
from interlock.model.command import Define
from interlock.model.error import BadPayload, UnknownJob
from interlock.model.job import Job

PayloadCheck = Callable[[bytes], None]
"""raises `BadPayload` naming the argument"""
PayloadMark = Callable[[bytes], bytes]
"""marks what the handler takes as secrets"""
PUT = "api"
PYTHON = "python"
"""sources that are no files"""
MOST_COMPARED = 10_000
"""names that are looked through for one that was meant"""


class Entry(msgspec.Struct, frozen=True):
    job: Job
    check: PayloadCheck
    mark: PayloadMark | None = None
    """None if the handler takes none"""
    source: str = PYTHON
    """where it is declared"""


class Catalog:
    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries = {entry.job.id: entry for entry in entries}

    def jobs(self) -> list[Job]:
        return [entry.job for entry in self._entries.values()]

    def define(self, request: int, actor: str = "scheduler") -> Define:
        return Define(request, self.jobs(), actor, {entry.job.id: entry.source for entry in self._entries.values()})

    def replace(self, entries: Iterable[Entry]) -> None:
        """These are declared from now on."""
        self._entries = {entry.job.id: entry for entry in entries}

    def source(self, job_id: str) -> str:
        entry = self._entries.get(job_id)
        return PUT if entry is None else entry.source

    def get(self, job_id: str, known: Mapping[str, Job] = {}) -> Entry:
        """The entry of a job, of those that are `known` too."""
        entry = self._entries.get(job_id)
        if entry is not None:
            return entry
        job = known.get(job_id)
        if job is None:
            names = {**self._entries, **dict.fromkeys(islice(known, MOST_COMPARED))}
            close = get_close_matches(job_id, names, 1)
            raise UnknownJob(job_id, close[0] if close else None)
        return Entry(job, any_object(job_id), None, PUT)


def any_object(job_id: str) -> PayloadCheck:
    """The check of a job that takes whatever it is given."""

    def check(data: bytes) -> None:
        try:
            value = payload.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadPayload(job_id, f"not valid JSON ({error})") from error
        if not isinstance(value, dict):
            raise BadPayload(job_id, f"a JSON object is expected, not {type(value).__name__}")

    return check
