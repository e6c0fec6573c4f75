"""The states of a run and the one table of what may follow what."""

from enum import IntFlag, StrEnum


class State(StrEnum):
    PRERUN = "prerun"
    """created ahead of when it is due"""
    PENDING = "pending"
    """due; waits for the policy's verdict"""
    APPROVAL_REQUIRED = "approval_required"
    """a person must clear it"""
    CONDITION_PENDING = "condition_pending"
    """has constraints, about to check them"""
    CONDITION_RUNNING = "condition_running"
    """constraints being checked"""
    ACTION_PENDING = "action_pending"
    """a constraint was violated, about to act"""
    ACTION_RUNNING = "action_running"
    """acting on the violation"""
    SCHEDULED = "scheduled"
    """cleared; waits for a slot and a worker"""
    DISPATCHED = "dispatched"
    """handed to one worker under a fence"""
    STARTING = "starting"
    """the worker creates what will execute it"""
    RUNNING = "running"
    """the work executes"""
    TERMINATING = "terminating"
    """exited; what came out is being judged"""
    RETRYING = "retrying"
    """waits out its retry delay"""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    DENIED = "denied"
    SKIPPED = "skipped"
    ORPHANED = "orphaned"
    OUTPUT_QUARANTINED = "output_quarantined"


S = State

ALLOWED: dict[State, frozenset[State]] = {
    S.PRERUN: frozenset({S.PENDING, S.SKIPPED, S.CANCELLED, S.FAILED}),
    S.PENDING: frozenset(
        {S.APPROVAL_REQUIRED, S.CONDITION_PENDING, S.SCHEDULED, S.DENIED, S.CANCELLED, S.FAILED, S.TIMEOUT}
    ),
    S.APPROVAL_REQUIRED: frozenset({S.PENDING, S.DENIED, S.CANCELLED, S.TIMEOUT}),
    S.CONDITION_PENDING: frozenset({S.CONDITION_RUNNING, S.CANCELLED, S.FAILED, S.TIMEOUT}),
    S.CONDITION_RUNNING: frozenset({S.ACTION_PENDING, S.SCHEDULED, S.CANCELLED, S.FAILED, S.TIMEOUT}),
    S.ACTION_PENDING: frozenset({S.ACTION_RUNNING, S.CANCELLED, S.FAILED, S.TIMEOUT}),
    S.ACTION_RUNNING: frozenset({S.CONDITION_PENDING, S.SCHEDULED, S.SKIPPED, S.CANCELLED, S.FAILED, S.TIMEOUT}),
    S.SCHEDULED: frozenset({S.PENDING, S.DISPATCHED, S.SKIPPED, S.CANCELLED, S.FAILED, S.TIMEOUT}),
    S.DISPATCHED: frozenset(
        {S.STARTING, S.RUNNING, S.SCHEDULED, S.RETRYING, S.CANCELLED, S.FAILED, S.TIMEOUT, S.ORPHANED}
    ),
    S.STARTING: frozenset({S.RUNNING, S.RETRYING, S.CANCELLED, S.FAILED, S.TIMEOUT, S.ORPHANED}),
    S.RUNNING: frozenset({S.TERMINATING, S.RETRYING, S.CANCELLED, S.FAILED, S.TIMEOUT, S.ORPHANED}),
    S.TERMINATING: frozenset(
        {S.SUCCEEDED, S.FAILED, S.TIMEOUT, S.RETRYING, S.OUTPUT_QUARANTINED, S.CANCELLED, S.ORPHANED}
    ),
    S.RETRYING: frozenset({S.PENDING, S.CANCELLED, S.FAILED, S.TIMEOUT, S.ORPHANED}),
    S.SUCCEEDED: frozenset({S.OUTPUT_QUARANTINED}),
    S.FAILED: frozenset(),
    S.TIMEOUT: frozenset(),
    S.CANCELLED: frozenset(),
    S.DENIED: frozenset(),
    S.SKIPPED: frozenset(),
    S.ORPHANED: frozenset(),
    S.OUTPUT_QUARANTINED: frozenset(),
}

TERMINAL = frozenset(state for state, after in ALLOWED.items() if after <= {S.OUTPUT_QUARANTINED})
"""A run in one of these has ended."""

HOLDS_SLOT = frozenset({S.DISPATCHED, S.STARTING, S.RUNNING, S.TERMINATING})
"""A run in one of these counts against its lane."""

ON_WORKER = frozenset({S.DISPATCHED, S.STARTING, S.RUNNING})
"""A run in one of these has a live attempt."""

ENTRY = frozenset({S.PENDING, S.SCHEDULED, S.DISPATCHED})
"""On the way to a worker."""

EXECUTION = frozenset({S.RUNNING, S.TERMINATING, S.SUCCEEDED})
"""From the start of the work to its success."""


class Effect(IntFlag):
    """What a transition does besides changing the state."""

    NONE = 0
    TAKES_SLOT = 1
    FREES_SLOT = 2
    ENDS = 4
    """leaves memory; a run that ended before has left it"""
    ENTERS = 8
    """goes through the entry"""
    REWRITES = 16
    """may change any field of the run, not only those of one group"""


def _effect(before: State, after: State) -> Effect:
    effect = Effect.ENDS if after in TERMINAL and before not in TERMINAL else Effect.NONE
    if after is S.PENDING:
        effect |= Effect.ENTERS
    if after in HOLDS_SLOT and before not in HOLDS_SLOT:
        effect |= Effect.TAKES_SLOT
    if before in HOLDS_SLOT and after not in HOLDS_SLOT:
        effect |= Effect.FREES_SLOT
    if after not in ENTRY | EXECUTION or (after in ENTRY and before in HOLDS_SLOT):
        effect |= Effect.REWRITES
    return effect


EFFECTS: dict[tuple[State, State], int] = {
    (before, after): int(_effect(before, after)) for before, allowed in ALLOWED.items() for after in allowed
}
"""the table once more, by pair: one look tells whether a transition is allowed and what it does"""
