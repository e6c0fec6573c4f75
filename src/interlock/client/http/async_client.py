"""`AsyncClient`: submit runs and follow them over HTTP, on an event loop."""

from types import TracebackType
from typing import Self

from interlock.client.http.address import read_token
from interlock.client.http.async_transport import AsyncTransport
from interlock.client.http.exchange import read_policy
from interlock.client.http.operations import Operations
from interlock.model.duration import Duration


class AsyncClient(Operations):
    """`Client` for programs with an event loop. It belongs to the loop on which it is first used."""

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        timeout: Duration = "30s",
        patience: Duration = "30s",
        first_contact: Duration = "2s",
        connections: int = 8,
    ) -> None:
        policy = read_policy(url, timeout, patience, first_contact, connections)
        super().__init__(policy, AsyncTransport(policy, read_token(token, policy.address)))

    def __repr__(self) -> str:
        return f"AsyncClient({self._policy.address.shown!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection. Calls that wait in other tasks raise an error."""
        await self._exchange.transport.close()
