"""Effects: ask the outside, take its answer once, and ask again if no answer comes.

An answer may come late, twice, after a restart, or never. Only the first answer to a pending effect counts, and only
while the run is in the state that asked. After a restart nothing is pending: `rebuild` derives the rest from the runs.
"""

from collections.abc import Iterator
from math import inf

import msgspec

from interlock.core.part import Part
from interlock.core.state import SchedulerState
from interlock.core.transition import Pass
from interlock.model.explanation import Reason, ReasonKind
from interlock.model.run import Now, Run
from interlock.model.state import State
from interlock.wire.command import Answered
from interlock.wire.effect import CallHook, Effect, ReadInputs

PATIENCE = 600.0  # seconds for which a hook is asked again; the sender may be starting


class PendingEffects(msgspec.Struct):
    pending: dict[Effect, float] = {}  # effect without an answer → elapsed time at which to ask again
    overdue: dict[Effect, float] = {}  # effect that was asked again → elapsed time since when
    due: float = inf  # no later than the earliest of these


def ask(p: Pass, effect: Effect) -> None:
    effects, due = p.state.of(PendingEffects), p.elapsed + effect.limit
    p.effects.append(effect)
    effects.pending[effect] = due
    effects.due = min(effects.due, due)


def answered(p: Pass, origin: str, command: Answered) -> None:
    p.answered += command.answers


def proceed(p: Pass) -> None:
    """Apply the answers, after everything else that arrived, and ask again where an answer is overdue."""
    effects, appliers = p.state.of(PendingEffects), p.state.machine.appliers
    pending, overdue = effects.pending, effects.overdue
    for effect, answer in p.answered:
        if pending.pop(effect, None) is None:
            continue
        overdue.pop(effect, None)
        if (run := _run_of(p, effect)) is not None:
            appliers[type(effect)](p, run, answer)
    if p.elapsed < effects.due:
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
    effects.due = min(pending.values(), default=inf)


def _run_of(p: Pass, effect: Effect) -> Run | None:
    run = p.state.runs.get(effect.run_id)
    return run if run is not None and run.seq == effect.seq else None


def is_pending(state: SchedulerState, run: Run) -> bool:
    """Return whether a dispatched run waits for its inputs."""
    return ReadInputs(run.id, run.seq) in state.of(PendingEffects).pending


def explain(state: SchedulerState, run: Run, now: Now) -> Iterator[Reason]:
    if run.state is State.DISPATCHED and is_pending(state, run):
        text = "waits until its payload is read from the store"
        yield Reason(kind=ReasonKind.PAYLOAD, text=text, since=run.changed_at)


EFFECTS = Part(
    name="effects", slices=(PendingEffects,), handlers={Answered: answered}, hears=(proceed,), explains=(explain,)
)
