"""Questions to the scheduler, with a limit of time."""

import asyncio
from typing import TypeVar

from interlock.client.connection import Connection
from interlock.error import ConnectionLost, NobodyLeads, NotRunning, rebuild
from interlock.interface.operation import IN_DOUBT
from interlock.wire.request import ChangeRequest, Request

T = TypeVar("T")


async def ask(connection: Connection, message: Request[T]) -> T:
    """Return the scheduler's answer, if it comes in time."""
    limit, name = message.patience, type(message).__name__
    doubt = IN_DOUBT if isinstance(message, ChangeRequest) and not message.repeatable else ""
    try:
        async with asyncio.timeout(limit):
            return await connection.ask(message)
    except TimeoutError as error:
        if not connection.has_link:
            raise NobodyLeads(connection.fault) from error
        raise rebuild(ConnectionLost.code, f"the scheduler did not answer {name} within {limit:g}s{doubt}") from error
    except NotRunning as error:
        raise NobodyLeads(connection.fault) from error
    except ConnectionLost as error:
        raise rebuild(ConnectionLost.code, f"the scheduler went away before it answered {name}{doubt}") from error
