"""A part: everything that one feature contributes to the machine, as data.

A feature is a package of `core/` (a module, if it is small). `core/step.py` lists the parts in the order in which a run
meets them, and compiles one machine from them at import. A command that two parts claim is an error there. A part that
is left out leaves nothing behind: a test executes a plain run with six of the parts.

- Hooks are compiled for each pair of states: `Pass.move` writes the history entry and calls the hooks of the pair.
  `settles` gets the runs that have ended, before the next one enters.
- A plain run has no facets, no session and no origin. A hook marked `for_special_runs` is not called for one, unless
  its part concerns all runs (tenants are declared, a policy judges): then the state uses a machine in which plain runs
  meet that part too. A hook marked `for_all_or_none` is called only then. `tests/core/test_parts.py` names the hooks
  that a plain run meets: two.
- Timers, restarts and sweeps all use the declaration in `waits`.
- After a restart each part `loads` its slice from the snapshot, and `places` every live run. A sweep places a missed
  run by the same functions.
"""

from collections.abc import Callable, Iterable, Mapping, Set
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec.structs import asdict, replace

from interlock.model.job import Job
from interlock.model.state import CONSEQUENCES, HOLDS_SLOT, TERMINAL, State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interlock.core.facts import Needs, Snapshot
    from interlock.core.state import SchedulerState
    from interlock.core.transition import Pass
    from interlock.model.explanation import Reason
    from interlock.model.record import Record
    from interlock.model.run import Now, Run
    from interlock.wire.effect import Effect
    from interlock.wire.message import Message

    Handler = Callable[[Pass, str, Any], None]  # with the sender: a worker's id, or the client to answer
    Answer = Callable[[Any, SchedulerState, Now], Message]
    FindNeeds = Callable[[SchedulerState, Any, Needs], None]
    Hook = Callable[[Pass, Run], None]
    Tick = Callable[[Pass], None]
    Explain = Callable[[SchedulerState, Run, Now], Iterator[Reason]]
    Place = Callable[[SchedulerState, Run, Now], None]
    ReadMemo = Callable[[str], bytes | None]

Moment = Callable[[State, State], bool]  # whether it comes with the transition from one state to another


def takes_slot(before: State, after: State) -> bool:
    return after in HOLDS_SLOT and before not in HOLDS_SLOT


def frees_slot(before: State, after: State) -> bool:
    return before in HOLDS_SLOT and after not in HOLDS_SLOT


def ends(before: State, after: State) -> bool:
    """The run leaves memory. One that had ended before may still change its state."""
    return after in TERMINAL and before not in TERMINAL


def enters(*states: State) -> Moment:
    return lambda before, after: after in states


def leaves(*states: State, to: frozenset[State] = frozenset(State)) -> Moment:
    return lambda before, after: before in states and after in to


F = TypeVar("F", bound=Callable[..., Any])
_SPECIAL: set[Any] = set()
_ALL_OR_NONE: set[Any] = set()


def for_special_runs(function: F) -> F:
    """Mark a hook or stage that does nothing for a plain run, which has no facets, no session and no origin: it is not
    called for one, unless its part `concerns_all`."""
    _SPECIAL.add(function)
    return function


def for_all_or_none(function: F) -> F:
    """Mark a hook that does nothing for any run unless its part `concerns_all`."""
    _SPECIAL.add(function)
    _ALL_OR_NONE.add(function)
    return function


def is_plain(run: "Run") -> bool:
    return run.facets is None and run.session is None and run.origin is None


def _but(functions: tuple[F, ...], left_out: set[Any]) -> tuple[F, ...]:
    return tuple(function for function in functions if function not in left_out)


def always(run: "Run") -> bool:
    return True


class Wait(msgspec.Struct, frozen=True):
    """A wait in a state that a span of elapsed time ends."""

    ends: "Hook"
    has_span: Callable[["Run"], bool] = lambda run: False
    """whether `due_at` is the end of such a span, and no requested instant"""
    longest: Callable[["Run", Job], float] = lambda run, job: inf  # seconds, of a run for which that is so


NO_WAIT = Wait(lambda p, run: None)


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One feature. What it does not declare costs nothing."""

    name: str
    slices: tuple[type, ...] = ()  # its memory: `state.of(kind)` is the one of this kind
    handlers: Mapping[type, "Handler"] = {}  # command or message → what to do with it
    answers: Mapping[type, "Answer"] = {}  # question → its answer from the state
    needs: Mapping[type, "FindNeeds"] = {}  # command → the facts that its handler needs
    asks: tuple[Callable[["SchedulerState", "Needs"], None], ...] = ()  # facts that any pass needs
    appliers: Mapping[type["Effect"], Callable[["Pass", "Run", Any], None]] = {}  # effect → what its answer does
    stages: tuple[Callable[["Pass", "Run"], bool], ...] = ()  # of the entry: True for a run that it ends or keeps
    begins: tuple["Hook", ...] = ()  # for a new run
    on: tuple[tuple[Moment, "Hook"], ...] = ()  # at a transition, in the midst of whatever makes it
    settles: tuple[Callable[["Pass", list["Run"]], None], ...] = ()
    """with the runs that have ended, before the next one enters: let others go on that waited for them"""
    waits: Mapping[State, Wait] = {}
    looks: Mapping[State, "Hook"] = {}  # what goes on if nothing but a look at the run is needed, after a restart too
    stops: Mapping[State, Callable[["Pass", "Run", State, str, str], bool]] = {}
    """state → what a cancel or the end of its time does to a run that does not end at once: end, reason, actor"""
    spans: Mapping[str, Callable[["Pass", "Run", str], None]] = {}  # field whose change voids a span → its end
    alarms: Mapping[str, Callable[["Pass", str, float], None]] = {}  # kind of a span of no run → its end
    records: tuple[type["Record"], ...] = ()  # kinds of stored resources that are loaded at a start
    loads: tuple[Callable[["SchedulerState", "Snapshot", "Now"], None], ...] = ()  # at a start, before runs are placed
    adopts: tuple[Callable[["SchedulerState", "Run", "ReadMemo"], None], ...] = ()
    """as `loads` do for all runs, for one that the memory has missed"""
    places: tuple[tuple[Set[State], "Place"], ...] = ()  # states, and what puts a live run in one where it belongs
    explains: tuple["Explain", ...] = ()
    hears: tuple["Tick", ...] = ()  # after the commands of a pass
    fires: tuple["Tick", ...] = ()  # what is due by its clock
    closes: tuple["Tick", ...] = ()  # after the entry
    jumps: tuple["Tick", ...] = ()  # after a jump of the wall clock
    concerns_all: tuple[Callable[["SchedulerState"], bool], ...] = ()  # whether plain runs get its hooks and stages too
    has_more: tuple[Callable[["SchedulerState"], bool], ...] = ()  # whether another pass has something to do by itself
    next_looks: tuple[Callable[["Pass"], Iterable[float]], ...] = ()  # wall times at which something is due


class Machine(Part, frozen=True, kw_only=True):
    """The parts as one, made ready: a pass looks up what concerns it, and never walks all parts."""

    moves: dict[tuple[State, State], tuple[int, tuple["Hook", ...], tuple["Hook", ...]]]
    """pair of states → consequence, hooks for a plain run, and hooks for any other"""
    parts: tuple[Part, ...]
    places_of: dict[State, tuple["Place", ...]]  # state → those of `places` that it concerns
    concerning: frozenset[str] = frozenset()  # names of the parts that concern all runs now
    plain_stages: tuple[Callable[["Pass", "Run"], bool], ...] = ()
    plain_begins: tuple["Hook", ...] = ()

    def chosen(self, state: "SchedulerState") -> "Machine":
        """Return the machine in which plain runs meet the parts that concern all runs in this state."""
        concerning = frozenset(part.name for part in self.parts if any(holds(state) for holds in part.concerns_all))
        return self if concerning == self.concerning else self.met_by_all(concerning)

    def met_by_all(self, concerning: frozenset[str]) -> "Machine":
        """Return the same machine, in which plain runs meet the stages and hooks of these parts too."""
        others = [part for part in self.parts if part.name not in concerning]
        functions = {
            function for part in others for function in (*part.stages, *part.begins, *(on[1] for on in part.on))
        }
        special, unused = _SPECIAL & functions, _ALL_OR_NONE & functions
        moves = {}
        for (before, after), consequence in CONSEQUENCES.items():
            hooks = tuple(hook for moment, hook in self.on if hook not in unused and moment(before, after))
            moves[before, after] = consequence, _but(hooks, special), hooks
        begins = tuple(hook for part in self.parts for hook in part.begins if hook not in unused)
        plain = {"plain_stages": _but(self.stages, special), "plain_begins": _but(begins, special)}
        return replace(self, moves=moves, begins=begins, concerning=concerning, **plain)

    def waits_for_span(self, run: "Run") -> bool:
        """Return whether `due_at` ends a delay (of a submit, a retry, a verdict …), and is no requested instant."""
        return run.due_at is not None and self.waits[run.state].has_span(run)


def joined(parts: tuple[Part, ...]) -> Machine:
    """Make one machine of the parts. Raise if two of them declare the same key."""
    sums: dict[str, Any] = {}
    for part in parts:
        for name, value in asdict(part).items():
            if isinstance(value, tuple):
                sums[name] = (*sums.get(name, ()), *value)
            elif isinstance(value, Mapping):
                known = sums.setdefault(name, {})
                if both := known.keys() & value.keys():
                    raise ValueError(f"{name}: {both} belongs to part {part.name!r} and to another one")
                known.update(value)
    sums["waits"] = dict.fromkeys(State, NO_WAIT) | sums["waits"]
    places_of = {state: tuple(put for states, put in sums["places"] if state in states) for state in State}
    return Machine(name="machine", **sums, moves={}, parts=parts, places_of=places_of).met_by_all(frozenset())
