"""The policy in memory, and the runs that wait for it."""

from typing import TYPE_CHECKING

import msgspec

from interlock.model.run import Run
from interlock.policy.policy import Policy
from interlock.policy.velocity import Windows

if TYPE_CHECKING:
    from interlock.core.state import SchedulerState


class Judging(msgspec.Struct):
    policy: Policy | None = None
    digest: str = ""  # of the policy that judged the waiting runs
    windows: Windows = msgspec.field(default_factory=Windows)  # of rules with a velocity
    awaiting_approval: dict[str, Run] = {}
    deferred: dict[str, Run] = {}  # pending runs that are judged again later
    to_judge: dict[str, Run] = {}  # pending runs that the next pass judges
    unjudged: set[str] = set()  # runs to judge again when their constraints or their worker let them go


class ThisPass(msgspec.Struct):
    """What has been judged in one pass."""

    cost: int = 0  # of the policy's expressions
    passed: set[str] = set()  # runs that the remote policy let pass
    payloads: dict[str, tuple[bytes, ...]] = {}  # run to be judged → all its payloads, if only the store has them


def is_judged(state: "SchedulerState") -> bool:
    """Return whether a policy judges runs, here or elsewhere."""
    return state.limits.remote_policy or state.of(Judging).policy is not None
