"""How long the scheduler is waited for, and what is said when it does not answer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from interlock.model.error import ConnectionLost, rebuild


@asynccontextmanager
async def within(limit: float, what: str, besides: str = "") -> AsyncIterator[None]:
    """Give up on a scheduler that has not said something by then; `besides` is what else is to be known of that."""
    try:
        async with asyncio.timeout(limit):
            yield
    except TimeoutError as error:
        raise rebuild(ConnectionLost.code, f"the scheduler has not said {what} within {limit:g}s{besides}") from error
    except ConnectionLost as error:
        raise rebuild(ConnectionLost.code, f"the scheduler went away before it said {what}{besides}") from error
