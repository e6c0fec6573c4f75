"""`AsyncClient`: submit runs and follow them over HTTP, on an event loop."""

from typing import Self

from interlock.client.http.async_transport import AsyncTransport
from interlock.client.http.base_client import BaseClient
from interlock.client.http.exchange import ClientPolicy
from interlock.client.http.operations import Operations


class AsyncClient(BaseClient, Operations):
    """`Client` for programs with an event loop. It belongs to the loop on which it is first used."""

    def _connect(self, policy: ClientPolicy, token: str | None) -> None:
        Operations.__init__(self, policy, AsyncTransport(policy, token))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection. Calls that wait in other tasks raise an error."""
        await self._exchange.transport.close()
