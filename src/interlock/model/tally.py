"""Tallies: sums over runs that have ended, kept apart from them: by lane and minute, and by tenant, job and hour."""

from collections.abc import Iterable
from math import exp2, log2
from typing import Annotated, ClassVar

import msgspec

from interlock.fields.field import doc
from interlock.fields.json_form import Time
from interlock.model.record import Columns, Record
from interlock.model.run import Run

STEPS = 4  # classes of seconds between a number and its double
LEAST = 1e-3  # seconds; less counts as this


class Sums(msgspec.Struct):
    """Sums over spans of time. The classes keep their distribution: class n has those up to 2 ** (n / STEPS) s."""

    count: int = 0
    total: float = 0.0
    most: float = 0.0
    classes: dict[int, int] = {}

    def add(self, spans: Iterable[float]) -> None:
        classes = self.classes
        for span in spans:
            span = max(LEAST, span)
            self.count += 1
            self.total += span
            self.most = max(self.most, span)
            number = -int(-log2(span) * STEPS // 1)  # rounded up
            classes[number] = classes.get(number, 0) + 1

    def quantile(self, share: float) -> float | None:
        """Return about how long the shortest `share` of the spans took at most."""
        left = share * self.count
        for number in sorted(self.classes):
            left -= self.classes[number]
            if left <= 0:
                return min(self.most, exp2(number / STEPS))
        return None


class Tally(Record, frozen=True, kw_only=True):
    """The runs of one lane in one minute, or of one job of a tenant in one hour."""

    span: ClassVar[float]  # seconds

    at: float  # its beginning
    states: dict[str, int] = {}
    waited: Sums = msgspec.field(default_factory=Sums)  # from the time due to the first start
    took: Sums = msgspec.field(default_factory=Sums)  # from the first start to the end


class LaneTally(Tally, frozen=True, kw_only=True):
    kind = "lane_tally"
    span = 60.0

    lane: str

    @property
    def columns(self) -> Columns:
        return Columns(job=self.lane, at=self.at)


class JobTally(Tally, frozen=True, kw_only=True):
    kind = "job_tally"
    span = 3600.0

    job: str
    tenant: str

    @property
    def columns(self) -> Columns:
        return Columns(tenant=self.tenant, job=self.job, at=self.at)


Ending = tuple[str, str, str, str, float, float | None, float]  # what a tally needs to know of a run that has ended


def ending_of(run: Run) -> Ending:
    """Return lane, tenant, job, state, and the times at which a run was due, began and ended."""
    return run.lane, run.tenant, run.job_id, run.state, run.scheduled_at, run.started_at, run.ended_at or 0.0


def summed(endings: Iterable[Ending]) -> dict[tuple[type[Tally], str], Tally]:
    """Return the tallies of these runs, by kind and id."""
    by_series: dict[tuple[str, str, str, int], list[Ending]] = {}
    for ending in endings:
        by_series.setdefault((*ending[:3], int(ending[6] // LaneTally.span)), []).append(ending)
    found: dict[tuple[type[Tally], str], Tally] = {}
    for (lane, tenant, job, minute), members in by_series.items():
        at, hour = minute * LaneTally.span, minute * LaneTally.span // JobTally.span * JobTally.span
        for tally in (
            LaneTally(id=f"{minute}:{lane}", at=at, lane=lane),
            JobTally(id=f"{int(hour)}:{tenant}:{job}", at=hour, job=job, tenant=tenant),
        ):
            _add(found.setdefault((type(tally), tally.id), tally), members)
    return found


def _add(tally: Tally, members: list[Ending]) -> None:
    for member in members:
        tally.states[member[3]] = tally.states.get(member[3], 0) + 1
    tally.waited.add(begun - due for *_, due, begun, _ in members if begun is not None)
    tally.took.add(ended - begun for *_, begun, ended in members if begun is not None)


def merge(into: Tally, more: Tally) -> None:
    """Add the sums of a tally to another one."""
    for state, count in more.states.items():
        into.states[state] = into.states.get(state, 0) + count
    for sums, others in ((into.waited, more.waited), (into.took, more.took)):
        sums.count += others.count
        sums.total += others.total
        sums.most = max(sums.most, others.most)
        for number, count in others.classes.items():
            sums.classes[number] = sums.classes.get(number, 0) + count


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """How long something took for many runs, in seconds. Quantiles are up to a fifth too high."""

    count: Annotated[int, doc("Runs.")]
    mean: Annotated[float | None, doc("Mean.")]
    p10: Annotated[float | None, doc("A tenth took at most this.")]
    p50: Annotated[float | None, doc("Half took at most this.")]
    p95: Annotated[float | None, doc("19 of 20 took at most this.")]
    most: Annotated[float | None, doc("The longest.")]


class TallyInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Runs that ended within a minute in a lane, or within an hour for a job of a tenant."""

    at: Annotated[Time, doc("Beginning of the minute or hour.")]
    lane: Annotated[str | None, doc("Lane; null if it is about a job.")]
    tenant: Annotated[str | None, doc("Tenant; null if it is about a lane.")]
    job: Annotated[str | None, doc("Job; null if it is about a lane.")]
    states: Annotated[dict[str, int], doc("Runs that ended, by state.")]
    waited: Annotated[Spread, doc("Seconds from the time due to the first start.")]
    took: Annotated[Spread, doc("Seconds from the first start to the end.")]


class TallyPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of tallies."""

    tallies: Annotated[list[TallyInfo], doc("Tallies, the newest first.")]
    next: Annotated[str | None, doc("Cursor of the next page; null on the last.")]


def info_of(tally: Tally) -> TallyInfo:
    return TallyInfo(
        at=tally.at,
        lane=tally.lane if isinstance(tally, LaneTally) else None,
        tenant=tally.tenant if isinstance(tally, JobTally) else None,
        job=tally.job if isinstance(tally, JobTally) else None,
        states=tally.states,
        waited=_spread(tally.waited),
        took=_spread(tally.took),
    )


def _spread(sums: Sums) -> Spread:
    return Spread(
        count=sums.count,
        mean=round(sums.total / sums.count, 6) if sums.count else None,
        most=round(sums.most, 6) if sums.count else None,
        **{name: _rounded(sums.quantile(share)) for name, share in (("p10", 0.1), ("p50", 0.5), ("p95", 0.95))},
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
