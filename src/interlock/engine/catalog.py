"""The declared jobs of a scheduler, their sources and payload checks, and its lanes. Jobs that were put are in the
state, and take any object."""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from itertools import islice

import msgspec

from interlock.core.state import DEFAULT_LANES
from interlock.model import payload
from interlock.model.command import Define
from interlock.model.error import BadPayload, UnknownJob
from interlock.model.job import Job

PayloadCheck = Callable[[bytes], None]  # raises `BadPayload`, which names the argument
PayloadMark = Callable[[bytes], bytes]  # marks the secrets that the handler takes
PUT = "api"
PYTHON = "python"  # sources that are no files
MOST_COMPARED = 10_000  # names compared with an unknown one to suggest the closest


class Entry(msgspec.Struct, frozen=True):
    job: Job
    check: PayloadCheck
    mark: PayloadMark | None = None  # None if the handler takes no secrets
    source: str = PYTHON  # where it is declared


class Catalog:
    def __init__(self, entries: Iterable[Entry], lanes: dict[str, int] = DEFAULT_LANES) -> None:
        self._entries = {entry.job.id: entry for entry in entries}
        self.lanes = lanes

    def jobs(self) -> list[Job]:
        return [entry.job for entry in self._entries.values()]

    def define(self, request: int, actor: str = "scheduler") -> Define:
        sources = {entry.job.id: entry.source for entry in self._entries.values()}
        return Define(request, self.jobs(), actor, sources, self.lanes)

    def replace(self, catalog: "Catalog") -> None:
        """Take over the declarations of another one."""
        self._entries, self.lanes = catalog._entries, catalog.lanes

    def source(self, job_id: str) -> str:
        entry = self._entries.get(job_id)
        return PUT if entry is None else entry.source

    def get(self, job_id: str, known: Mapping[str, Job] = {}) -> Entry:
        """Return the entry of a declared job, or one made for a `known` job."""
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
    """Return the check of a job that takes any object."""

    def check(data: bytes) -> None:
        try:
            value = payload.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadPayload(job_id, f"not valid JSON ({error})") from error
        if not isinstance(value, dict):
            raise BadPayload(job_id, f"a JSON object is expected, not {type(value).__name__}")

    return check
