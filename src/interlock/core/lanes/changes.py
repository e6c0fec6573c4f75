"""Changes of lanes: declare them at a start or reload; create, set, pause, resume and drain them at run time.

A memo keeps what was done at run time. It outlasts restarts, and counts more than the declaration.
"""

from collections import deque
from collections.abc import Mapping
from operator import itemgetter

import msgspec
from msgspec.structs import replace

from interlock.core.facts import Snapshot
from interlock.core.jobs.queries import lane_info
from interlock.core.lanes.lane import Lane
from interlock.core.state import SchedulerState
from interlock.core.transition import Pass
from interlock.error import BadValue, UnknownLane
from interlock.fields.field import copy_fields
from interlock.fields.field_types import NAME_RULE, FieldPath, Rate, did_you_mean
from interlock.model.job import NAME
from interlock.model.lane import STATUS_AFTER, LaneChange, LaneEvent, LaneMemo, LaneSpec, LaneStatus
from interlock.model.run import Now
from interlock.wire.lane_request import ActOnLane, CreateLane, SetLane
from interlock.wire.request import ValueAnswer


def create(p: Pass, origin: str, command: CreateLane) -> None:
    if not NAME.fullmatch(command.lane):
        raise BadValue("id", command.lane, NAME_RULE.format(64))
    spec = copy_fields(LaneSpec, command)  # refuses bad values
    if is_new := command.lane not in p.state.lanes:
        change = copy_fields(LaneChange, spec)
        _keep(p, command.lane, LaneMemo(created=True, change=change))
    _answer(p, origin, command, "create" if is_new else "")


def set_values(p: Pass, origin: str, command: SetLane) -> None:
    """Set values of a lane. Setting a value back to the declared one removes the override."""
    memo, declared = _memo(p, command.lane), p.state.lanes.declared.get(command.lane)
    rate = command.body.rate
    number = Rate().check(rate, FieldPath("rate")) if isinstance(rate, str) else rate
    change = LaneChange(**memo.change.given | copy_fields(LaneChange, command.body, rate=number).given)
    spec = replace(memo, change=change).spec_over(declared)  # refuses bad values
    if not memo.created:
        given = change.given.items()
        change = LaneChange(**{name: value for name, value in given if value != getattr(declared, name)})
    _keep(p, command.lane, replace(memo, change=change))
    _answer(p, origin, command, "set" if spec != memo.spec_over(declared) else "")


def act(p: Pass, origin: str, command: ActOnLane) -> None:
    memo, status = _memo(p, command.lane), STATUS_AFTER[command.action]
    if is_new := memo.status != status:
        since, by = (0.0, "") if status is LaneStatus.OPEN else (p.now, command.actor or origin)
        _keep(p, command.lane, replace(memo, status=status, since=since, by=by))
    _answer(p, origin, command, command.action if is_new else "")


def _memo(p: Pass, name: str) -> LaneMemo:
    if name not in p.state.lanes:
        raise UnknownLane(name, did_you_mean(name, p.state.lanes))
    return p.state.lanes.memos.get(name) or LaneMemo()


def _keep(p: Pass, name: str, memo: LaneMemo) -> None:
    p.state.lanes.memos[name] = memo
    p.keep_memo(LaneMemo.PREFIX + name, None if memo == LaneMemo() else msgspec.json.encode(memo))
    p.state.lanes.settle()


def _answer(p: Pass, origin: str, command: CreateLane | SetLane | ActOnLane, done: str) -> None:
    """Answer with the lane, and announce the action if it has changed anything."""
    after = lane_info(p.state, p.state.lanes[command.lane], p.now)
    if done:
        actor = command.actor or origin
        p.announce(LaneEvent(lane=command.lane, at=p.now, action=done, actor=actor, after=after))
    p.answers.append((origin, ValueAnswer(command.request, after)))


def adopt_lanes(p: Pass, declared: Mapping[str, LaneSpec]) -> None:
    """Add new lanes, change values, and move the live runs of removed lanes to main, as a restart does. A lowered limit
    stops nothing; the lane starts nothing until it has room."""
    if not declared:
        return
    p.state.lanes.declared = declared
    gone = p.state.lanes.settle()
    lanes = p.state.lanes
    moved = [run for run in p.state.runs.values() if run.lane not in lanes] if gone else []
    for lane in gone:
        count = sum(run.lane == lane.name for run in moved)
        p.warnings.append(f"lane {lane.name!r} is no longer declared: {count:,} live runs use main")
        _merge(lanes["main"], lane)
    for run in moved:
        run.lane = "main"
        p.touch(run)


def _merge(main: Lane, gone: Lane) -> None:
    """Take over the runs of a lane; waiting ones keep their order of arrival."""
    main.holding |= gone.holding
    main.moved |= gone.moved
    main.dead += gone.dead
    main.waiting += gone.waiting
    main.has_apart |= gone.has_apart
    main.has_workflow |= gone.has_workflow
    for line_key, line in gone.lines.items():
        own = main.lines.get(line_key) or main.open(line_key)
        own.waiting += line.waiting
        for key, queue in line.queues.items():
            merged = own.queues[key] = deque(sorted([*own.queues.get(key, ()), *queue], key=itemgetter(0)))
            main.add_head(own, (merged[0][0], key))


def load(state: SchedulerState, snapshot: Snapshot, now: Now) -> None:
    """Read what was done at run time."""
    named = {
        name.removeprefix(LaneMemo.PREFIX): memo
        for name, memo in snapshot.memos.items()
        if name.startswith(LaneMemo.PREFIX)
    }
    state.lanes.memos = {name: msgspec.json.decode(memo, type=LaneMemo) for name, memo in named.items()}
    state.lanes.settle()
