"""The overview: what runs, what waits and why, and what needs a person."""

from enum import StrEnum
from typing import Annotated

import msgspec

from interlock.fields.field import doc
from interlock.fields.json_form import Time
from interlock.model.explanation import ReasonKind
from interlock.model.lane import LaneInfo


class NeedKind(StrEnum):
    APPROVAL = "approval"
    DEAD_LETTER = "dead_letter"
    LANE = "lane"  # it is paused or draining
    SCHEDULE = "schedule"  # it is paused
    WORKFLOW = "workflow"  # it is halted
    SERVICE = "service"  # it is not up


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a person has to look at."""

    kind: Annotated[NeedKind, doc("Kind.")]
    text: Annotated[str, doc("The same in words.")]
    detail: Annotated[str, doc("More about it, such as the reason or the error of the newest.")] = ""
    name: Annotated[str | None, doc("Lane, job or service that it is about.")] = None
    count: Annotated[int, doc("How many there are, such as runs that wait for an approval.")] = 1
    since: Annotated[Time | None, doc("Time at which it began; of several, the oldest.")] = None
    until: Annotated[Time | None, doc("Time at which it ends by itself; of several, the first.")] = None
    run: Annotated[str | None, doc("A run that it is about; of several, the first to end.")] = None


class WaitingRuns(msgspec.Struct, frozen=True, kw_only=True):
    """Waiting runs with the same reason. The first run of each queue is explained, and its queue is counted with it."""

    kind: Annotated[ReasonKind, doc("Kind of the reason.")]
    name: Annotated[str | None, doc("Lane, rate, limit, rule or person that it is about.")]
    job: Annotated[str, doc("Job of the oldest run.")]
    text: Annotated[str, doc("The reason in words, about the oldest run.")]
    count: Annotated[int, doc("Runs.")]
    since: Annotated[Time, doc("Time since when the oldest run waits.")]
    run: Annotated[str, doc("The oldest run.")]
    at: Annotated[Time | None, doc("Time at which the wait of the oldest run ends by itself.")] = None
    pace: Annotated[float | None, doc("Recent starts a second of its lane, if it waits there.")] = None
    holders: Annotated[list[str], doc("Runs that the oldest one waits for, at most 5.")] = []


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """What runs, what waits and why, and what needs a person."""

    needs: Annotated[list[Need], doc("What needs a person, the most urgent first.")]
    waiting: Annotated[list[WaitingRuns], doc("Waiting runs by reason, the most frequent first.")]
    unexplained: Annotated[int, doc("Further waiting runs: only the 1,000 longest queues are explained.")]
    states: Annotated[dict[str, int], doc("Runs that have not ended, by state.")]
    lanes: Annotated[list[LaneInfo], doc("Lanes; empty for callers of one tenant.")]
    workers: Annotated[int, doc("Connected workers.")]
    policy: Annotated[str | None, doc("Digest of the policy in force; null without one.")]
