"""A part: everything that one feature contributes to the machine, as data.

A feature is a package of `core/` (a module, if it is small). `core/step.py` lists the parts in the order in which a run
meets them, and compiles one machine from them at import. A command that two parts claim is an error there. A part that
is left out leaves nothing behind: a test executes a plain run with six of the parts.

- Hooks are compiled for each pair of states: `Pass.move` writes the history entry and calls the hooks of the pair.
  `settles` gets the runs that have ended, before the next one enters.
- A plain run has no facets, no session and no origin. A hook marked `for_special_runs` is not called for one, unless
  its part concerns all runs (tenants are declared, a policy judges): then the state uses the same machine without plain
  runs. `tests/core/test_parts.py` names the hooks that a plain run meets: two.
- Timers, restarts and sweeps all use the declaration in `waits`.
- After a restart each part `loads` its slice from the snapshot, and `places` every live run. A sweep places a missed
  run by the same functions.
"""

from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

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


def for_special_runs(function: F) -> F:
    """Mark a hook or stage that does nothing for a plain run, which has no facets, no session and no origin: it is not
    called for one, unless its part `concerns_all`."""
    _SPECIAL.add(function)
    return function


def is_plain(run: "Run") -> bool:
    return run.facets is None and run.session is None and run.origin is None


def _for_plain(functions: tuple[F, ...]) -> tuple[F, ...]:
    return tuple(function for function in functions if function not in _SPECIAL)


def always(run: "Run") -> bool:
    return True


class Wait(msgspec.Struct, frozen=True):
    """A wait in a state that a span of elapsed time ends."""

    ends: "Hook"
    has_span: Callable[["Run"], bool] = lambda run: (
        False
    )  # whether `due_at` is the end of such a span, and no requested instant
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
    places: tuple[Callable[["SchedulerState", "Run", "Now"], None], ...] = ()  # put a live run where it belongs
    explains: tuple["Explain", ...] = ()
    hears: tuple["Tick", ...] = ()  # after the commands of a pass
    fires: tuple["Tick", ...] = ()  # what is due by its clock
    closes: tuple["Tick", ...] = ()  # after the entry
    jumps: tuple["Tick", ...] = ()  # after a jump of the wall clock
    concerns_all: tuple[Callable[["SchedulerState"], bool], ...] = ()  # whether plain runs get its hooks and stages too
    has_more: tuple[Callable[["SchedulerState"], bool], ...] = ()  # whether another pass has something to do by itself
    next_looks: tuple[Callable[["Pass"], Iterable[float]], ...] = ()  # wall times at which something is due


class Machine:
    """The parts, made ready: a pass looks up what concerns it, and never walks all parts."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self.parts = tuple(parts)
        self.handlers = self._merged("handlers")
        self.answers = self._merged("answers")
        self.needs = self._merged("needs")
        self.appliers = self._merged("appliers")
        self.waits = dict.fromkeys(State, NO_WAIT) | self._merged("waits")
        self.looks = self._merged("looks")
        self.stops = self._merged("stops")
        self.spans = self._merged("spans")
        self.alarms = self._merged("alarms")
        (
            self.slices, self.asks, self.stages, self.begins, self.settles, self.records, self.loads,
            self.adopts, self.places, self.explains, self.hears, self.fires, self.closes, self.jumps,
            self.has_more, self.next_looks, self.concerns_all,
        ) = map(self._joined, (
            "slices", "asks", "stages", "begins", "settles", "records", "loads",
            "adopts", "places", "explains", "hears", "fires", "closes", "jumps",
            "has_more", "next_looks", "concerns_all",
        ))  # fmt: skip
        on = self._joined("on")
        self.moves: dict[tuple[State, State], tuple[int, tuple[Hook, ...], tuple[Hook, ...]]] = {}
        """pair of states → consequence, hooks for a plain run, and hooks for any other"""
        for (before, after), consequence in CONSEQUENCES.items():
            hooks = tuple(hook for moment, hook in on if moment(before, after))
            self.moves[before, after] = consequence, _for_plain(hooks), hooks
        self.plain_stages, self.plain_begins = _for_plain(self.stages), _for_plain(self.begins)
        self.with_plain = self
        self.without_plain = without = object.__new__(Machine)  # the same machine, to which no run is plain
        vars(without).update(vars(self))
        without.moves = {pair: (consequence, hooks, hooks) for pair, (consequence, _, hooks) in self.moves.items()}
        without.plain_stages, without.plain_begins = self.stages, self.begins

    def _joined(self, name: str) -> tuple[Any, ...]:
        return tuple(item for part in self.parts for item in getattr(part, name))

    def _merged(self, name: str) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for part in self.parts:
            for key, value in getattr(part, name).items():
                if key in found:
                    raise ValueError(f"{name}: {key} belongs to part {part.name!r} and to another one")
                found[key] = value
        return found

    def waits_for_span(self, run: "Run") -> bool:
        """Return whether `due_at` ends a delay (of a submit, a retry, a verdict …), and is no requested instant."""
        return run.due_at is not None and self.waits[run.state].has_span(run)
