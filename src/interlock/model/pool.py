"""A pool: workers that take the runs of some topics. A worker as it is shown."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any

import msgspec

from interlock.error import BadUse, BadValue, Repeated
from interlock.fields.field import Checked, doc
from interlock.fields.field_types import FieldPath, Number, Schema, Texts, Whole, Word, did_you_mean
from interlock.model.job import TAGS, Tags
from interlock.model.labels import Labels
from interlock.model.policy.output import GLOB

DEFAULT_POOL = "default"  # the pool of a worker that names none
EVERYTHING = "*"  # a topic or a capability that stands for all
OFFERS = Texts(Word(r"\*|[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,63}", "a capability, or '*' for all"), make=tuple)

MOST = 100  # labels, and capabilities, of a worker
WORKER_LABELS = Labels(MOST)
CAPABILITIES = Texts(TAGS.each, expected=f"a list of up to {MOST} capabilities", most=MOST)
SLOTS, PROCESSES = Whole(1, 100_000), Whole(1, 10_000)


class PoolStatus(StrEnum):
    ACTIVE = "active"
    DRAINING = "draining"  # its workers finish what they have
    INACTIVE = "inactive"


class Lack(StrEnum):
    """Why no worker can take a run, however long it waits for others to end."""

    NO_POOL_MAPPING = "no_pool_mapping"  # no active pool takes its topic
    NO_WORKERS = "no_workers"  # no connected worker fits
    POOL_OVERLOADED = "pool_overloaded"  # those that fit have none of our runs, and are busy all the same


class Topics(Texts):
    """At least one topic, none of them twice."""

    def check(self, value: Any, place: FieldPath) -> tuple[str, ...]:
        found: tuple[str, ...] = super().check(value, place)
        for number, topic in enumerate(found):
            if topic in found[:number]:
                raise Repeated(str(place.at(number)), topic)
        return found

    def schema(self) -> Schema:
        return super().schema() | {"uniqueItems": True}


class PoolSpec(Checked, frozen=True, kw_only=True):
    topics: Annotated[
        Tags,
        doc("Topics of the runs that it takes; `*` stands for any text."),
        Topics(GLOB, least=1, expected="a list of at least one name or glob", make=tuple),
    ]
    offers: Annotated[Tags, doc("Capabilities that each of its workers has; `*` stands for all."), OFFERS] = ()
    requires: Annotated[Tags, doc("Capabilities that a worker must announce to join it."), TAGS] = ()
    status: Annotated[PoolStatus, doc("`active`, `draining` or `inactive`.")] = PoolStatus.ACTIVE
    max_load: Annotated[
        float | None,
        doc("CPU or GPU load, in percent, at which its workers get nothing; null for no limit."),
        Number(1, 100),
    ] = 90


ONE_POOL = PoolSpec(topics=(EVERYTHING,), offers=(EVERYTHING,))
"""what every pool is while none is declared: workers for everything"""


class PoolInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A pool with its workers."""

    id: Annotated[str, doc("Name.")]
    declared: Annotated[bool, doc("Whether a document declares it; if not, it exists because a worker names it.")]
    status: Annotated[PoolStatus, doc("`active`, `draining` or `inactive`.")]
    topics: Annotated[tuple[str, ...], doc("Topics of the runs that it takes; `*` stands for any text.")]
    offers: Annotated[tuple[str, ...], doc("Capabilities that each of its workers has; `*` stands for all.")]
    requires: Annotated[tuple[str, ...], doc("Capabilities that a worker must announce to join it.")]
    workers: Annotated[int, doc("Workers in it, those that are away included.")]
    ready: Annotated[int, doc("Workers that would get a run now.")]
    active: Annotated[int, doc("Runs that its workers have.")]
    slots: Annotated[int, doc("Most runs that its workers execute at once.")]


class PoolList(msgspec.Struct, frozen=True, kw_only=True):
    pools: Annotated[list[PoolInfo], doc("Declared pools in order of declaration, then others by name.")]


def lower(names: Iterable[str]) -> frozenset[str]:
    """Return capabilities as they are compared: without regard to case."""
    return frozenset(name.lower() for name in names)


def check_member(pools: Mapping[str, PoolSpec], pool: str, capabilities: Iterable[str]) -> None:
    """Refuse a worker that may not be in its pool. Any worker may be in the default one, and in any while none is
    declared."""
    if pool not in pools:
        if pools and pool != DEFAULT_POOL:
            raise BadValue("pool", pool, f"declared; use one of {', '.join(pools)}{did_you_mean(pool, pools)}")
        return
    if missing := [require for require in pools[pool].requires if require.lower() not in lower(capabilities)]:
        raise BadUse("capabilities", f"pool {pool!r} requires {', '.join(missing)}; announce it with --capability")


REGION = "region"  # the label with a worker's region


class WorkerAction(StrEnum):
    DRAIN = "drain"
    RESUME = "resume"
    REMOVE = "remove"


class WorkerState(StrEnum):
    READY = "ready"
    FULL = "full"  # all slots are taken
    OVERLOADED = "overloaded"  # too busy for more runs of its pool
    DRAINING = "draining"  # gets nothing new, and finishes what it has; or its pool is not active
    SILENT = "silent"  # connected, but has sent nothing for too long
    AWAY = "away"  # not connected


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    id: Annotated[str, doc("Id.")]
    pool: Annotated[str, doc("Pool.")]
    region: Annotated[str | None, doc("Its label `region`; null without one.")]
    state: Annotated[WorkerState, doc("`ready`, `full`, `overloaded`, `draining`, `silent` or `away`.")]
    drained: Annotated[bool, doc("Whether somebody has drained it: it gets nothing new until it is resumed.")]
    active: Annotated[int, doc("Runs that it has.")]
    slots: Annotated[int, doc("Most runs that it executes at once.")]
    processes: Annotated[int, doc("Most runs with a process of their own.")]
    cpu: Annotated[float, doc("Load of its machine's processors, in percent.")]
    memory: Annotated[float, doc("Memory of its machine in use, in percent.")]
    gpu: Annotated[float, doc("Load of its busiest GPU, in percent.")]
    heard_ago: Annotated[float, doc("Seconds since its last sign of life, or since the start of the scheduler.")]
    skew: Annotated[float, doc("Seconds by which its clock is ahead of the scheduler's.")]
    jobs: Annotated[int, doc("Jobs of the app that it has loaded.")]
    capabilities: Annotated[list[str], doc("Capabilities that it announced.")]
    labels: Annotated[dict[str, str], doc("Labels that it announced.")]
    tenants: Annotated[list[str] | None, doc("Tenants whose runs it may have; null for all.")]


class WorkerList(msgspec.Struct, frozen=True, kw_only=True):
    workers: Annotated[list[WorkerInfo], doc("Every worker, by pool and id.")]
