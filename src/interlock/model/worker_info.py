"""A worker as it is shown, and what a person can do with it."""

from enum import StrEnum
from typing import Annotated

import msgspec

from interlock.fields.doc import doc

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
