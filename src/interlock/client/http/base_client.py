"""The constructor of both clients: it checks the arguments."""

from abc import ABC, abstractmethod

from interlock.client.http.address import read_address, read_token
from interlock.client.http.exchange import ClientPolicy
from interlock.error import BadDuration, BadValue
from interlock.fields.duration import Duration, seconds


class BaseClient(ABC):
    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        timeout: Duration = "30s",
        patience: Duration = "90s",
        first_contact: Duration = "2s",
        connections: int = 8,
    ) -> None:
        if not (limit := seconds(timeout, "timeout")):
            raise BadDuration("timeout", timeout, "longer than zero")
        if not isinstance(connections, int) or isinstance(connections, bool) or connections < 1:
            raise BadValue("connections", connections, "a whole number of 1 or more")
        retries = seconds(patience, "patience"), seconds(first_contact, "first_contact")
        policy = self._policy = ClientPolicy(read_address(url), limit, *retries, connections)
        self._connect(policy, read_token(token, policy.address))

    @abstractmethod
    def _connect(self, policy: ClientPolicy, token: str | None) -> None: ...

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._policy.address.shown!r})"
