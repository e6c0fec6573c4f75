"""What goes out to workers straight from the store: payloads too large to keep in memory, and checkpoints."""

import msgspec

from interlock.core.decisions import Decisions
from interlock.model.message import Dispatch, Message
from interlock.ports.store import Store


def _needs_inputs(message: Message) -> bool:
    return type(message) is Dispatch and (message.payload is None or message.attempt > 1)


async def fill(decisions: Decisions, store: Store) -> None:
    """Put into the dispatches what is not kept in memory."""
    wanted = [
        one.run_id
        for messages in decisions.sends.values()
        for one in messages
        if type(one) is Dispatch and _needs_inputs(one)
    ]
    if not wanted:
        return
    inputs = await store.inputs(wanted)
    for messages in decisions.sends.values():
        for place, message in enumerate(messages):
            if type(message) is Dispatch and message.run_id in inputs:
                found = inputs[message.run_id]
                messages[place] = msgspec.structs.replace(message, payload=found.payload, checkpoint=found.checkpoint)


def shorten(decisions: Decisions, passed: float) -> None:
    """Leave out the time that has passed since it was decided how long workers are to keep what they are given."""
    for messages in decisions.sends.values():
        for message in messages:
            if type(message) is Dispatch and message.hold:
                msgspec.structs.force_setattr(message, "hold", max(0.0, message.hold - passed))


def keep_back(decisions: Decisions) -> None:
    """Take out the dispatches that could not be filled."""
    for worker_id, messages in decisions.sends.items():
        decisions.sends[worker_id] = [one for one in messages if not _needs_inputs(one)]
