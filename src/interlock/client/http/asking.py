"""What every group of operations asks with: a request, its answer read as what it must be."""

import os
from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec

from interlock.client.http.exchange import Operation, Policy, Request, decoded, exchange
from interlock.client.submission import PLAIN
from interlock.model.request import NewRun
from interlock.model.run import CALL_KEY

T = TypeVar("T")


class Submitted(msgspec.Struct):
    id: str


class Asking:
    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._reached = False
        """the server has answered: a wait goes on while it is away, whereas nobody there at all is an error"""

    def _fetch(
        self, request: Request, kind: type[T], until: float | None = None, patient: bool = False
    ) -> Operation[T]:
        answer = yield from exchange(request, self._policy, until, patient=patient)
        found = decoded(request, answer, kind, self._policy.address)
        self._reached = True
        return found

    def _post(self, path: str, body: Mapping[str, Any], kind: type[T], key: str | None = None) -> Operation[T]:
        headers = {} if key is None else {"Idempotency-Key": key}
        return (yield from self._fetch(Request("POST", path, msgspec.json.encode(body), headers), kind))


def with_query(path: str, query: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def body_of(new: NewRun, now: float, tenant: str | None) -> dict[str, Any]:
    """A run as the server reads it: its deadline is a duration, so that a clock that is off does not matter."""
    start = new.at or new.occurrence or now + (new.delay or 0.0)
    body = {
        "job": new.job_id,
        "payload": msgspec.Raw(new.payload) if new.payload else None,
        **{name: getattr(new, name) for name in PLAIN},
        "tenant": tenant,
        "deadline": None if new.deadline_at is None else round(max(0.0, new.deadline_at - start), 6),
        "at": new.at,
        "delay": new.delay,
        "occurrence": new.occurrence,
    }
    return {name: value for name, value in body.items() if value is not None}


def key_for(runs: list[NewRun]) -> str | None:
    """A key for this very call, so that it can be repeated; None if every run is safe to repeat by itself."""
    if all(new.idempotency_key is not None or new.occurrence is not None for new in runs):
        return None
    return CALL_KEY + os.urandom(16).hex()
