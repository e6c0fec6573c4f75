"""The states of a run, and the one table of allowed transitions."""

from enum import IntFlag, StrEnum


class State(StrEnum):
    PRERUN = "prerun"  # created ahead of when it is due
    PENDING = "pending"  # due; waits for the policy's verdict
    APPROVAL_REQUIRED = "approval_required"  # a person must clear it
    CONDITION_PENDING = "condition_pending"  # has constraints, about to check them
    CONDITION_RUNNING = "condition_running"  # constraints being checked
    ACTION_PENDING = "action_pending"  # a constraint was violated, about to act
    ACTION_RUNNING = "action_running"  # acting on the violation
    SCHEDULED = "scheduled"  # cleared; waits for a slot and a worker
    UNDER_WAY = "under_way"  # a workflow whose steps run, or a step that waits for a time; no slot, no worker
    DISPATCHED = "dispatched"  # handed to one worker under a fence
    STARTING = "starting"  # the worker creates what will execute it
    RUNNING = "running"  # the work executes
    TERMINATING = "terminating"  # exited; what came out is being judged
    RETRYING = "retrying"  # waits out its retry delay
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    DENIED = "denied"
    SKIPPED = "skipped"
    ORPHANED = "orphaned"
    OUTPUT_QUARANTINED = "output_quarantined"


S = State

# The states that every run passes, under plain names: a look-up in an enum costs as much as a call (CPython 3.11), and
# the core names these several times for each run.
PENDING, SCHEDULED, DISPATCHED = S.PENDING, S.SCHEDULED, S.DISPATCHED
RUNNING, TERMINATING, SUCCEEDED = S.RUNNING, S.TERMINATING, S.SUCCEEDED

_STOPS = {S.CANCELLED, S.FAILED, S.TIMEOUT}
_ALLOWED: dict[State, set[State]] = {
    S.PRERUN: {S.PENDING, S.SKIPPED, S.CANCELLED, S.FAILED},
    S.PENDING: {S.APPROVAL_REQUIRED, S.CONDITION_PENDING, S.SCHEDULED, S.UNDER_WAY, S.DENIED, *_STOPS},
    S.APPROVAL_REQUIRED: {S.PENDING, S.DENIED, S.CANCELLED, S.TIMEOUT},
    S.CONDITION_PENDING: {S.CONDITION_RUNNING, *_STOPS},
    S.CONDITION_RUNNING: {S.ACTION_PENDING, S.SCHEDULED, *_STOPS},
    S.ACTION_PENDING: {S.ACTION_RUNNING, *_STOPS},
    S.ACTION_RUNNING: {S.CONDITION_PENDING, S.SCHEDULED, S.SKIPPED, *_STOPS},
    S.SCHEDULED: {S.PENDING, S.DISPATCHED, S.UNDER_WAY, S.SKIPPED, *_STOPS},
    S.UNDER_WAY: {S.SUCCEEDED, S.OUTPUT_QUARANTINED, S.DENIED, *_STOPS},
    S.DISPATCHED: {S.STARTING, S.RUNNING, S.SCHEDULED, S.RETRYING, S.ORPHANED, *_STOPS},
    S.STARTING: {S.RUNNING, S.RETRYING, S.ORPHANED, *_STOPS},
    S.RUNNING: {S.TERMINATING, S.RETRYING, S.ORPHANED, *_STOPS},
    S.TERMINATING: {S.SUCCEEDED, S.RETRYING, S.OUTPUT_QUARANTINED, S.ORPHANED, *_STOPS},
    S.RETRYING: {S.PENDING, S.ORPHANED, *_STOPS},
    S.SUCCEEDED: {S.OUTPUT_QUARANTINED},
}
ALLOWED = {state: frozenset(_ALLOWED.get(state, ())) for state in State}

TERMINAL = frozenset(state for state, after in ALLOWED.items() if after <= {S.OUTPUT_QUARANTINED})
"""states of an ended run"""

LIVE = frozenset(State) - TERMINAL

GUARDED = frozenset({S.CONDITION_PENDING, S.CONDITION_RUNNING, S.ACTION_PENDING, S.ACTION_RUNNING})  # not cleared yet

HOLDS_SLOT = frozenset({S.DISPATCHED, S.STARTING, S.RUNNING, S.TERMINATING})  # states that count against the lane

ON_WORKER = frozenset({S.DISPATCHED, S.STARTING, S.RUNNING})  # states with a live attempt

ENTRY = frozenset({S.PENDING, S.SCHEDULED, S.DISPATCHED})  # states on the way to a worker

EXECUTION = frozenset({S.RUNNING, S.TERMINATING, S.SUCCEEDED})  # states from the start of the work to its success


class Consequence(IntFlag):
    """The effects of a transition besides the new state."""

    NONE = 0
    ENDS = 1  # the run leaves memory, unless it ended before
    ENTERS = 2  # the run goes through the entry
    REWRITES = 4  # any field of the run may change, not only those of one group


def _effect(before: State, after: State) -> Consequence:
    effect = Consequence.ENDS if after in TERMINAL and before not in TERMINAL else Consequence.NONE
    if after is S.PENDING:
        effect |= Consequence.ENTERS
    if after not in ENTRY | EXECUTION or (after in ENTRY and before in HOLDS_SLOT):
        effect |= Consequence.REWRITES
    return effect


CONSEQUENCES: dict[tuple[State, State], int] = {
    (before, after): int(_effect(before, after)) for before, allowed in ALLOWED.items() for after in allowed
}
"""the table by pair: one lookup tells whether a transition is allowed, and its effects"""
