"""The way of a run, top to bottom: take in what arrived, fire what is due, enter, dispatch.

A part has all of a feature; `PARTS` has them in the order in which a run meets them.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from interlock.core import timers
from interlock.core.attempts.part import ATTEMPTS
from interlock.core.audit import AUDITING
from interlock.core.bulk.part import BULK
from interlock.core.decisions import Decisions, Failed
from interlock.core.effects import EFFECTS
from interlock.core.entry.part import ENTRY
from interlock.core.facts import Facts, Needs
from interlock.core.guards.part import GUARDS
from interlock.core.jobs.part import JOBS
from interlock.core.lanes.part import LANES
from interlock.core.letters.part import LETTERS
from interlock.core.outbox import OUTBOX
from interlock.core.output import OUTPUT
from interlock.core.overview import OVERVIEW
from interlock.core.part import joined
from interlock.core.policy.part import POLICY, QUESTIONS
from interlock.core.recovery.sweep import RECOVERY
from interlock.core.routing.part import ROUTING
from interlock.core.sessions.part import SESSIONS
from interlock.core.sign_in import SIGN_IN
from interlock.core.state import CoreLimits, SchedulerState
from interlock.core.tallies import TALLIES
from interlock.core.tenants.part import TENANTS
from interlock.core.timers import TIMERS
from interlock.core.timetable.part import SERIES, TIMETABLE
from interlock.core.transition import Pass
from interlock.core.workflows.part import WORKFLOWS
from interlock.error import InterlockError, InvalidTransition
from interlock.model.lane import LaneSpec
from interlock.model.run import Now

if TYPE_CHECKING:
    from random import Random

Command = tuple[str, Any]  # sender (a worker's id, or the client to answer) and message or command
NO_FACTS = Facts()

PARTS = (
    JOBS, TIMETABLE, TIMERS, ENTRY, QUESTIONS, POLICY, BULK, GUARDS, SERIES, OUTPUT, LANES, SESSIONS, TENANTS, EFFECTS,
    ROUTING, ATTEMPTS, LETTERS, OUTBOX, AUDITING, SIGN_IN, OVERVIEW, TALLIES, WORKFLOWS, RECOVERY,
)  # fmt: skip
MACHINE = joined(PARTS)


def new_state(limits: CoreLimits, lanes: Mapping[str, LaneSpec]) -> SchedulerState:
    return SchedulerState(MACHINE, limits, lanes)


def needs(state: SchedulerState, commands: Sequence[Command]) -> Needs:
    """Return the facts that a step with these commands needs from the store."""
    needed, finders = Needs(), state.machine.needs
    for _, content in commands:
        if (find_needs := finders.get(type(content))) is not None:
            find_needs(state, content, needed)
    for ask in state.machine.asks:
        ask(state, needed)
    return needed


def step(
    state: SchedulerState, commands: Sequence[Command], now: Now, rng: "Random", facts: Facts = NO_FACTS
) -> Decisions:
    """Take in a batch and decide. Change `state`; the shell must store the decisions before it sends anything."""
    p = Pass(state=state, now=now.wall, elapsed=now.elapsed, rng=rng, facts=facts)
    timers.follow_wall_clock(p)
    handlers = state.machine.handlers
    for origin, content in commands:
        try:
            handlers[type(content)](p, origin, content)
        except InvalidTransition as error:
            p.problems.append(str(error))
            if hasattr(content, "request"):
                p.answers.append((origin, Failed(content.request, error.with_traceback(None))))
        except InterlockError as error:
            p.answers.append((origin, Failed(content.request, error.with_traceback(None))))
    machine = state.machine
    for hear in machine.hears:
        hear(p)
    for fire in machine.fires:
        fire(p)
    p.settle()
    p.go_on()
    for close in machine.closes:
        close(p)
    state.sweep()
    return p.finish()
