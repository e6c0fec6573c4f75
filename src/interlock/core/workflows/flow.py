"""The memory of workflows: for each one under way its live steps, and the ends of the others."""

import re
from collections.abc import Collection, Iterable, Mapping

import msgspec

from interlock.core.routing.roster import DemandKey
from interlock.core.state import SchedulerState
from interlock.fields.safe_text import last_line
from interlock.model.facets import Facets, StepFacet
from interlock.model.job import Job
from interlock.model.run import COMPENSATION, Run
from interlock.model.state import State
from interlock.model.workflow import (
    APPROVAL,
    EVENT,
    GROUP,
    PARALLEL,
    ROUND,
    SEND,
    SLEEP,
    TAKEN_OVER,
    UNDO_LATER,
    Workflow,
    WorkflowStep,
)
from interlock.wire.event_request import SendEvent

SMALL_RESULT = 256  # bytes of a result that is kept in memory
SCAN_LOOK = 5.0  # seconds between looks at results that are not scanned
LONGEST_ERROR = 500  # characters of a step's error that its workflow repeats
MOST_VARIANTS = 10_000
MOST_LIVE = 10_000  # live steps below one workflow run, those of sub-workflows included
EVENT_RUN = "event."  # prefix of the names of the runs of events
UNDO = COMPENSATION[1:]  # prefix of the names of compensations
ROUND_MARK = re.compile("r[0-9]+")  # name of the step that has the arguments of a round
DONE = frozenset({State.SUCCEEDED, State.SKIPPED})
BUILT_IN = {
    job_id: Job(id=job_id) for job_id in (SLEEP, GROUP, PARALLEL, APPROVAL, EVENT, SEND, ROUND, TAKEN_OVER, UNDO_LATER)
}


class NoRoom(Exception):
    """A workflow has as many live steps as it may: the one that wants another fails."""


class StepEnd(msgspec.Struct, frozen=True, gc=False):
    state: State
    result: bytes | None = None  # None also if only the store has it
    is_stored: bool = False  # whether only the store has the result
    error: str = ""
    at: float = 0.0

    @property
    def is_done(self) -> bool:
        return self.state in DONE


def result_of(step: Run) -> bytes | None:
    """Return the result that the workflow of a step gets: none if it was withheld, even if it is released later."""
    return None if step.state is State.OUTPUT_QUARANTINED else step.shown_result


class EndedStep(msgspec.Struct, frozen=True):
    """A step that has ended, as the store has it."""

    run_id: str
    state: State
    result: bytes | None  # None if it is withheld, or above `SMALL_RESULT`
    has_result: bool
    error: str
    is_unscanned: bool
    at: float = 0.0
    facet: StepFacet | None = None

    @classmethod
    def of(cls, run: Run) -> "EndedStep":
        result = result_of(run)
        is_small = result is not None and len(result) <= SMALL_RESULT
        error = "" if run.state is State.SUCCEEDED else last_line(run.error) or run.reason
        has_result, at = result is not None, run.ended_at or 0.0
        return cls(
            run.id, run.state, result if is_small else None, has_result, error, run.is_unscanned, at, run.step_facet
        )


def left_to_undo(run_id: str, runs: Iterable[tuple[str, Facets | None]]) -> list[str]:
    """Return the steps and items that a workflow has yet to undo, the last completed one last, of the runs below it."""
    steps = {id[len(run_id) + 1 :]: None if facets is None else facets.step for id, facets in runs}
    begun = {name.removeprefix(UNDO) for name in steps if name.startswith(UNDO)}
    left = {
        name: step.completed
        for name, step in steps.items()
        if step is not None and step.completed is not None and "@" not in name and name not in begun
    }
    return [f"{run_id}@{name}" for name in sorted(left, key=left.__getitem__)]


class Flow(msgspec.Struct, eq=False):
    """A workflow under way, or a group: the items of one step."""

    run: Run
    order: int  # its place among the waiting runs, for its steps
    step: WorkflowStep | None = None  # of a group
    is_known: bool = True  # whether `ended` is complete; the store has the rest after a restart
    live: dict[str, None] = {}  # names of the steps that have not ended, or whose results are not scanned yet
    ended: dict[str, StepEnd] = {}
    read: dict[str, bytes] = {}  # results above `SMALL_RESULT`, and the payload under an empty name; for one pass
    items: list[bytes] | None = None  # arguments of the items of a group
    failed_item: str | None = None
    saga: list[str] | None = None  # steps yet to undo, the last completed one last; None before they are read
    may_undo: bool = False  # whether a step may have a compensation
    is_code: bool = False  # whether its author is a function
    asked: dict[str, int] = {}  # of a function: steps of this round, and their numbers in the order of request
    completed: dict[str, int] = {}  # likewise: those that have ended, and their places in the order of completion
    demand: DemandKey | None = None  # likewise: what its turns demand of a worker, once that was asked
    placed: float = 0.0  # elapsed time of the start or the recovery that has found it in the store

    wakes: dict[str, None] = {}  # workflows that wait until this one is known

    @property
    def waits(self) -> dict[str, str]:
        """Step that waits for an event → name of its run."""
        return self.run.workflow_facet.waits

    def known_steps(self) -> tuple[Collection[str], Mapping[str, StepEnd]]:
        """Return the names of its runs that have not ended, and the ends of the others; a step of a graph that waits
        for an event, or waited for one, is among them under its own name too."""
        waits, live, ended = self.waits, self.live, self.ended
        if not waits:
            return live, ended
        waiting = (step for step, name in waits.items() if name in live)
        return {*live, *waiting}, {**ended, **{step: ended[name] for step, name in waits.items() if name in ended}}

    def live_in(self, graph: Workflow) -> list[str]:
        """Return the names of the live runs of the steps of a graph."""
        return [name for step in graph.by_id if (name := self.run_name(step)) in self.live]

    def id_of(self, name: str) -> str:
        return f"{self.run.id}{'@' if self.step is None else '.'}{name}"

    def run_name(self, step: str) -> str:
        """Return the name of the run of a step: one that waits for an event has that of the event."""
        return self.waits.get(step, step)

    def id_of_step(self, step: str) -> str:
        return self.id_of(self.run_name(step))

    def name_of(self, run_id: str) -> str:
        return run_id[len(self.run.id) + 1 :]

    @property
    def round_prefix(self) -> str:
        """The beginning of the names of the steps of this round."""
        number = self.run.workflow_facet.round
        return "" if number == 1 else f"r{number}."

    @property
    def round_mark(self) -> str:
        """The name of the step that has the arguments of this round, if it is not the first."""
        return f"r{self.run.workflow_facet.round}"

    def has_asked(self, name: str) -> bool:
        """Return whether a step is one of this round of a function."""
        prefix = self.round_prefix
        if prefix or name.startswith(UNDO):
            return bool(prefix) and name.startswith(prefix)
        return "." not in name and ROUND_MARK.fullmatch(name) is None


class Flows(dict[str, Flow]):
    """By run, for every workflow and group under way."""

    def __init__(self) -> None:
        self.starting: list[tuple[Run, int]] = []  # workflows that their lane lets start, and their places in it
        self.moved: list[Run] = []  # steps, workflows and groups that have ended, and their flows have yet to hear
        self.turning: dict[str, None] = {}  # likewise, those whose author is a function
        self.inbox: list[tuple[str, SendEvent]] = []  # events for workflows whose records are not read yet
        self.touched: dict[str, None] = {}  # flows that may go on
        self.below: dict[str, int] = {}  # outermost workflow run → number of live steps below it
        self.unscanned: dict[str, str] = {}  # step that has succeeded and is not scanned → its flow
        self.variants: dict[tuple[str, str, str], Job] = {}  # versions of workflow and job, step → job of the step

    def drop(self, run_id: str) -> None:
        """Forget a workflow that has ended; those that wait for its record go on."""
        if (flow := self.pop(run_id, None)) is not None:
            self.touched.update(flow.wakes)

    def count(self, run_id: str, change: int) -> None:
        """Count a step that has begun or ended."""
        top = run_id.partition("@")[0]
        live = self.below.get(top, 0) + change
        if live:
            self.below[top] = live
        else:
            del self.below[top]

    def check_room(self, run: Run) -> None:
        """Raise `NoRoom` if as many steps are live as may be. What follows the end of a workflow always has room."""
        top = run.id.partition("@")[0]
        if self.below.get(top, 0) >= MOST_LIVE and run.closing is None:
            raise NoRoom(f"steps: run {top!r} has {MOST_LIVE:,} live steps below it, as many as are allowed")

    def order(self, state: SchedulerState, run: Run) -> int:
        """Return the place of a new run among those that wait: a step has that of its workflow."""
        flow = self.get(run.parent or "") if run.is_step else None
        return state.arrival() if flow is None else flow.order


def graph_of(state: SchedulerState, flow: Flow) -> Workflow:
    """Return the graph of a workflow under way."""
    workflow = state.job_of(flow.run).workflow
    assert workflow is not None
    return workflow
