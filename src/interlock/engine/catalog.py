"""The declared jobs of a scheduler, their sources and payload checks, its lanes, pools and policy. Jobs that were put
are in the state, and take any object."""

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Protocol

import msgspec
from msgspec.structs import replace

from interlock.core.state import DEFAULT_LANES, unknown_job
from interlock.error import BadPayload, BadValue
from interlock.fields import payload
from interlock.fields.field_types import did_you_mean
from interlock.model.job import Job
from interlock.model.lane import LaneSpec, with_limits
from interlock.model.pool import PoolSpec
from interlock.model.tenant import TenantSpec
from interlock.policy.policy import Policy
from interlock.wire.command import Define

PayloadCheck = Callable[[bytes], None]  # raises `BadPayload` with the name of the argument
PayloadMark = Callable[[bytes], bytes]  # marks the secrets that the handler takes
PYTHON = "python"  # source of a job declared in Python


class CatalogEntry(msgspec.Struct, frozen=True):
    job: Job
    check: PayloadCheck
    mark: PayloadMark | None = None  # None if the handler takes no secrets
    source: str = PYTHON  # place of the declaration


class Catalog:
    def __init__(
        self,
        entries: Iterable[CatalogEntry],
        lanes: Mapping[str, LaneSpec] = with_limits(DEFAULT_LANES),
        policy: Policy | None = None,
        pools: Mapping[str, PoolSpec] = {},
        tenants: Mapping[str, TenantSpec] = {},
    ) -> None:
        self._entries = {entry.job.id: entry for entry in entries}
        self.jobs = [entry.job for entry in self._entries.values()]
        self.sources = {entry.job.id: entry.source for entry in self._entries.values()}
        self.lanes = lanes
        self.policy = policy
        self.pools = pools
        self.tenants = tenants

    def define(self, request: int, actor: str = "scheduler", position: int = 0, claim_key: bytes = b"") -> Define:
        declared = self.sources, self.lanes, self.policy
        return Define(request, self.jobs, actor, *declared, position, self.pools, self.tenants, claim_key)

    def get(self, job_id: str, known: Mapping[str, Job] = {}) -> CatalogEntry:
        """Return the entry of a declared job, or one made for a `known` job."""
        entry = self._entries.get(job_id)
        if entry is None:
            if job_id not in known:
                raise unknown_job(job_id, chain(self._entries, known))
            entry = CatalogEntry(known[job_id], any_object(job_id))
        function = self._entries.get(entry.job.function_of or "")
        return entry if function is None else replace(entry, check=function.check, mark=function.mark)

    def bound(self, job: Job) -> Job:
        """Return a job that was put, bound to the job of the app that it names, if any."""
        return bind(job, self._entries) if job.function_of is not None else job


class CatalogFunction(Protocol):
    """A job of the app: an entry here, or its definition."""

    @property
    def job(self) -> Job: ...
    @property
    def check(self) -> PayloadCheck: ...
    @property
    def mark(self) -> PayloadMark | None: ...


def bind(job: Job, functions: Mapping[str, CatalogFunction]) -> Job:
    """Return a job that runs the function of another, with what belongs to that function: executor and secrets. Check
    its own payload, which a scheduled job may need, and mark the secrets in it."""
    other = job.function_of or ""
    function = functions.get(other)
    if function is None or function.job.work is not None:
        known = [name for name, known in functions.items() if known.job.work is None]
        rule = f"a job of the server's app{did_you_mean(other, known)}; use an id of a job defined with @app.job"
        raise BadValue("run.job", other, rule)
    given = job.payload
    if given is not None or job.schedule is not None:
        data = payload.EMPTY if given is None else payload.encode(given, "payload")
        try:
            function.check(data)
        except BadPayload as error:
            raise BadPayload(job.id, str(error).partition(": ")[2]) from None
        if given is not None and function.mark is not None:
            given = payload.decode(function.mark(data))
    own = function.job
    return replace(job, executor=own.executor, secrets=own.secrets, payload=given, version="")


def any_object(job_id: str) -> PayloadCheck:
    """Return the check of a job that takes any object."""

    def check(data: bytes) -> None:
        try:
            value = payload.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadPayload(job_id, f"not valid JSON ({error})") from error
        if not isinstance(value, dict):
            raise BadPayload(job_id, f"expected a JSON object, not {type(value).__name__}")

    return check
