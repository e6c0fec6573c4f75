"""A turn: replay the function of a workflow from its record, and return its orders."""

from typing import Any

import msgspec

from interlock.error import BadHandler, RunDenied
from interlock.model.failure import Outcome
from interlock.model.state import State
from interlock.model.workflow_record import WorkflowRecord
from interlock.wire import turn as t
from interlock.worker.attempt_end import AttemptEnd, encode_result, end_of_error
from interlock.worker.context import Context
from interlock.worker.definition import Definition
from interlock.worker.workflow_context import WorkflowContext
from interlock.worker.workflow_driver import Branch, Driver

MOST_BYTES = 16 * 1024 * 1024  # of the orders of a turn
LONGEST_ERROR = 16 * 1024
_DECODER = msgspec.json.Decoder(WorkflowRecord)


def read_record(data: bytes) -> WorkflowRecord:
    return _DECODER.decode(data)


def take_turn(definition: Definition, record: bytes, context: Context) -> AttemptEnd:
    """Return the end of an attempt whose result has the orders of a turn."""
    data = msgspec.json.encode({"orders": replay(definition, read_record(record), context)})
    if len(data) > MOST_BYTES:
        text = f"orders: {len(data):,} bytes in one turn; at most {MOST_BYTES:,} are allowed; hand on paths or keys"
        data = msgspec.json.encode({"orders": [t.Fail(error=text)]})
    return AttemptEnd(Outcome.SUCCEEDED, data)


def replay(definition: Definition, record: WorkflowRecord, context: Context) -> list[t.Order]:
    """Return the orders that the function gives after this record; `Halt` alone if it does not fit the record."""

    def mute(is_live: bool) -> None:
        context.is_full = not is_live  # an earlier turn has written these lines

    driver = Driver(record, mute)

    def finish(root: Branch[Any]) -> t.Order:
        if root.error is not None:
            return _fail(root.error, context)
        try:
            return t.Finish(result=msgspec.Raw(encode_result(root.value)))
        except BaseException as error:  # noqa: BLE001 - a result may raise when it is read
            return _fail(error, context)

    own = WorkflowContext(driver, context)
    try:
        coroutine = definition.handler(**definition.arguments(bytes(record.payload), own))
    except Exception as error:  # noqa: BLE001 - a payload that no longer fits
        return [_fail(error, context)]
    if not hasattr(coroutine, "send"):
        return [_fail(BadHandler("a workflow is an async function; its decorator must return a coroutine"), context)]
    orders = driver.run(coroutine, finish)
    context.is_full = False
    return orders


def _fail(error: BaseException, context: Context) -> t.Fail:
    end = end_of_error(error, context, Outcome.FAILED)
    state = State.DENIED if isinstance(error, RunDenied) else State.FAILED
    return t.Fail(error=(end.error or "failed")[-LONGEST_ERROR:], state=state, failure=end.failure)
