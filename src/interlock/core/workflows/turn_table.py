"""The memory of turns: which workflows have one out, wait for one, or are halted."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from interlock.core.routing.roster import DemandKey
from interlock.model.explanation import Reason, ReasonKind
from interlock.model.run import Run
from interlock.wire.message import Finished, Stop

if TYPE_CHECKING:
    from interlock.core.state import SchedulerState
    from interlock.core.transition import Pass

TURN = "turn"  # the kind of a span that ends a turn which takes too long
LONGEST_TURN = 10.0  # seconds
OVER = "stale"  # reason of the stop of a turn whose orders nobody takes


class LostTurn(msgspec.Struct, frozen=True):
    reason: str
    is_crash: bool  # whether its process died under it


class Turns(msgspec.Struct):
    out: dict[str, tuple[int, int]] = {}  # workflow with a turn on a worker → ended steps and bytes that the turn got
    bytes_out: int = 0  # of all of them
    over: list[tuple[Run, Finished | LostTurn]] = []  # turns that have ended, and their workflows have yet to hear
    waiting: dict[DemandKey, dict[str, None]] = {}  # workflows that wait for a worker
    avoided: dict[str, set[str]] = {}  # workflow → digests of code that it is not to be given to
    crashes: dict[str, int] = {}  # workflow → turns in a row whose process died
    joined: list[str] = []  # workers that have connected
    preferred: dict[str, str] = {}  # halted workflow → worker that has just joined

    def stop_waiting(self, run_id: str) -> None:
        for key in [key for key, runs in self.waiting.items() if run_id in runs]:
            del self.waiting[key][run_id]
            if not self.waiting[key]:
                del self.waiting[key]

    def hand_out(self, run_id: str, given: int, size: int) -> None:
        self.out[run_id] = given, size
        self.bytes_out += size

    def take_back(self, run_id: str) -> int | None:
        """Take back a turn; return how many ended steps it was given, or None if no turn is out."""
        given, size = self.out.pop(run_id, (None, 0))
        self.bytes_out -= size
        return given

    def waits(self, run_id: str) -> bool:
        return run_id in self.out or run_id in self.avoided or any(run_id in runs for runs in self.waiting.values())

    def forget(self, run_id: str) -> None:
        self.stop_waiting(run_id)
        self.take_back(run_id)
        for table in (self.avoided, self.crashes, self.preferred):
            table.pop(run_id, None)


def detach(p: "Pass", run: Run) -> None:
    """Take a turn off its worker; its orders count no longer."""
    if run.worker_id is None:
        return
    if (worker := p.state.workers.get(run.worker_id)) is not None:
        p.send(worker.id, Stop(run.id, run.fence, OVER))
        p.state.roster.drop(worker, run.id)
    run.fence += 1
    run.worker_id = None
    p.state.of(Turns).take_back(run.id)
    p.touch(run)


def explain_turn(state: "SchedulerState", run: Run) -> Iterator[Reason]:
    """Explain the halt of a workflow, its turn, or its wait for one."""
    turns, halt = state.of(Turns), run.workflow_facet.halt
    if halt is not None:
        text = f"is halted ({halt.code}): {halt.text}; it goes on when a worker with fitting code joins"
        yield Reason(kind=ReasonKind.HALTED, text=text, name=halt.step or None, since=halt.at)
    if run.id in turns.out and run.attempt_started_at is None:
        text = f"turn {run.attempt} of its function went to worker {run.worker_id} and has not begun"
        yield Reason(kind=ReasonKind.SENT, text=text, name=run.worker_id)
    elif run.id in turns.out:
        text = f"its function decides on worker {run.worker_id} what follows (turn {run.attempt})"
        yield Reason(kind=ReasonKind.EXECUTING, text=text, name=run.worker_id, since=run.attempt_started_at)
    elif turns.waits(run.id) and halt is None:
        known = sum(run.job_id in worker.jobs for worker in state.workers.values())
        text = "all that know it are busy" if known else f"none knows job {run.job_id}"
        yield Reason(kind=ReasonKind.NO_WORKER, text=f"waits for a worker that runs its function: {text}")
