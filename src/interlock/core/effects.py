"""Effects: ask the outside, take its answer once, and ask again if no answer comes.

An answer may come late, twice, after a restart, or never. Only the first answer to a pending effect counts, and only
while the run is in the state that asked. After a restart nothing is pending: `rebuild` derives the rest from the runs.
"""

from collections.abc import Callable, Iterator, Mapping
from math import inf
from typing import Any

from interlock.core.state import SchedulerState
from interlock.core.transition import Pass
from interlock.model.explanation import Reason, ReasonKind
from interlock.model.run import Now, Run
from interlock.model.state import State
from interlock.wire.command import Answered
from interlock.wire.effect import CallHook, Effect, ReadInputs

PATIENCE = 600.0  # seconds for which a hook is asked again; the sender may be starting
Apply = Callable[[Pass, Run, Any], None]


def ask(p: Pass, effect: Effect) -> None:
    due = p.elapsed + effect.limit
    p.effects.append(effect)
    p.state.effects[effect] = due
    p.state.effects_due = min(p.state.effects_due, due)


def answered(p: Pass, origin: str, command: Answered) -> None:
    p.answered += command.answers


def proceed(p: Pass, appliers: Mapping[type[Effect], Apply]) -> None:
    """Apply the answers, after everything else that arrived, and ask again where an answer is overdue."""
    pending, overdue = p.state.effects, p.state.overdue
    for effect, answer in p.answered:
        if pending.pop(effect, None) is None:
            continue
        overdue.pop(effect, None)
        if (run := _run_of(p, effect)) is not None:
            appliers[type(effect)](p, run, answer)
    if p.elapsed < p.state.effects_due:
        return
    for effect in [effect for effect, due in pending.items() if due <= p.elapsed]:
        del pending[effect]
        since = overdue.pop(effect, p.elapsed)
        if (run := _run_of(p, effect)) is None:
            continue
        if isinstance(effect, CallHook) and p.elapsed - since > PATIENCE:
            appliers[CallHook](p, run, (None, "the sender does not answer"))
        else:
            overdue[effect] = since
            ask(p, effect)
    p.state.effects_due = min(pending.values(), default=inf)


def _run_of(p: Pass, effect: Effect) -> Run | None:
    run = p.state.runs.get(effect.run_id)
    return run if run is not None and run.seq == effect.seq else None


def is_pending(state: SchedulerState, run: Run) -> bool:
    """Return whether a dispatched run waits for its inputs."""
    return ReadInputs(run.id, run.seq) in state.effects


def explain(state: SchedulerState, run: Run, now: Now) -> Iterator[Reason]:
    if run.state is State.DISPATCHED and is_pending(state, run):
        text = "waits until its payload is read from the store"
        yield Reason(kind=ReasonKind.PAYLOAD, text=text, since=run.changed_at)
