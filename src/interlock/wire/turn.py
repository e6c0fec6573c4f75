"""The outcome of a turn: the orders that the function of a workflow gives."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from interlock.fields.field_types import JOB_NAME
from interlock.model.failure import Failure
from interlock.model.state import State
from interlock.model.workflow import LONGEST_QUESTION, MOST_ITEMS, STEP_NAME

MOST_ORDERS = 10_000
Json = msgspec.Raw
Name = Annotated[str, Meta(pattern=r"\A(?!comp-|r[0-9]+\Z)[A-Za-z_][A-Za-z0-9_]{0,63}(-[1-9][0-9]{0,3})?\Z")]
EventName = Annotated[str, Meta(pattern=rf"\A{STEP_NAME}\Z")]
Key = Annotated[str, Meta(min_length=1, max_length=64)]
Id = Annotated[str, Meta(pattern=rf"\A{JOB_NAME}\Z")]  # of a job
RunId = Annotated[str, Meta(max_length=1000)]
Text = Annotated[str, Meta(max_length=32 * 1024)]
Seconds = Annotated[float, Meta(ge=0, le=1e11)]


class Order(msgspec.Struct, tag=True, tag_field="order", frozen=True, omit_defaults=True, kw_only=True):
    pass


class UndoStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """The compensation of a step."""

    job: Id
    arguments: dict[str, Any] | None = None  # as in `Undo`


class StartStep(Order, frozen=True):
    name: Name
    job: Id
    payload: Json  # or null for the job's own
    timeout: Seconds | None = None
    undo: UndoStep | None = None


class StartGroup(Order, frozen=True):
    name: Name
    job: Id
    items: Annotated[list[Json], Meta(max_length=MOST_ITEMS)]  # arguments of each
    max_parallel: Annotated[int, Meta(ge=1, le=MOST_ITEMS)]
    undo: UndoStep | None = None  # of each item


class Sleep(Order, frozen=True):
    name: Name
    seconds: Seconds | None = None
    until: Seconds | None = None


class AskPerson(Order, frozen=True):
    name: Name
    question: Annotated[str, Meta(min_length=1, max_length=LONGEST_QUESTION)]
    data: Json
    timeout: Seconds


class WaitForEvent(Order, frozen=True):
    name: Name
    event: EventName
    timeout: Seconds | None = None


class SendTo(Order, frozen=True):
    """Send an event to another workflow."""

    name: Name
    to: RunId
    event: EventName
    value: Json


class Compensate(Order, frozen=True):
    """Put a compensation on the saga."""

    number: Annotated[int, Meta(ge=1, le=MOST_ORDERS)]  # among those of its round
    undo: UndoStep


class CancelSteps(Order, frozen=True):
    names: Annotated[list[Name], Meta(max_length=MOST_ORDERS)]


class Publish(Order, frozen=True):
    name: Key
    value: Json


class NoteChange(Order, frozen=True):
    """`changed` returned true for the first time."""

    name: Key


class Finish(Order, frozen=True):
    result: Json


class Fail(Order, frozen=True):
    error: Text
    state: State = State.FAILED
    failure: Failure | None = None


class NextRound(Order, frozen=True):
    payload: Json


class Halt(Order, frozen=True):
    """The code does not fit the record."""

    text: Text
    step: Annotated[str, Meta(max_length=128)] = ""


class TurnEnd(msgspec.Struct, frozen=True):
    orders: Annotated[
        list[
            StartStep
            | StartGroup
            | Sleep
            | AskPerson
            | WaitForEvent
            | SendTo
            | Compensate
            | CancelSteps
            | Publish
            | NoteChange
            | Finish
            | Fail
            | NextRound
            | Halt
        ],
        Meta(max_length=MOST_ORDERS),
    ]
