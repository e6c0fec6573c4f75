"""Effects: work that the core asks of the outside, after the commit. The answer comes back as a command."""

import msgspec

from interlock.model.delivery import Outgoing
from interlock.model.policy.verdict import PolicyRequest

LIMIT = 5.0
CALL = 2.0  # seconds for one call of the remote policy


class Effect(msgspec.Struct, frozen=True, gc=False):
    """Work for a run, identified by kind, run and `seq`; a change of the run's `seq` voids it."""

    run_id: str
    seq: int

    @property
    def limit(self) -> float:
        """Seconds for the answer; after that the core asks again."""
        return LIMIT


class ReadInputs(Effect, frozen=True, gc=False):
    """Read the payloads and the last checkpoint of a dispatched run. The answer has them all."""


class ReadPrevious(Effect, frozen=True, gc=False):
    """Read the run of the same job before this one. The answer has its id, its state and whether it has ended, or is
    None."""


class ReadPayload(Effect, frozen=True, gc=False):
    """Read the payload of a run that is to be judged. The answer has it."""


class ReadRecord(Effect, frozen=True, gc=False):
    """Read the ended steps of a workflow. The answer has an `EndedStep` for each."""

    placed: float = 0.0  # of the `Flow`: what was read before another recovery may lack later ends


class ReadResults(Effect, frozen=True, gc=False):
    """Read the payload of a workflow and results of its steps. The answer has them by id."""

    ids: tuple[str, ...]  # steps, and the workflow itself for its payload


class ReadSaga(Effect, frozen=True, gc=False):
    """Read what a workflow has yet to undo. The answer has the ids of these steps, the last completed one last, and
    that one itself."""

    placed: float = 0.0  # of the `Flow`, as in `ReadRecord`
    step: str = ""  # the step to read, if the ids are known


class CheckPolicy(Effect, frozen=True, gc=False):
    """Ask the remote policy. The answer has the requests, and their verdicts or a text that says why there are none."""

    requests: tuple[PolicyRequest, ...]  # one for each payload and submitter of the run
    again: bool = False  # whether the run was judged before, so that no velocity counts it

    @property
    def limit(self) -> float:
        return CALL + LIMIT

    def __hash__(self) -> int:
        return hash((self.run_id, self.seq))


class CallHook(Effect, frozen=True, gc=False):
    """Make an HTTP request. The answer has the status and an error; without an answer, the status is None."""

    id: str  # the same, however often it is asked
    outgoing: Outgoing

    @property
    def limit(self) -> float:
        return self.outgoing.timeout + LIMIT
