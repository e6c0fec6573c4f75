"""The policy service as a scheduler asks it.

Every call ends with verdicts, or with `PolicyUnavailable`: nothing else counts as an answer, and a shutdown gives none.
Each frame is a call of its own. One stream for all frames was measured too: it saves 3 µs of 10 for each verdict, and
would need ids, a reader and time limits of our own.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property

import grpc

from interlock.circuit import Circuit, CircuitRules
from interlock.error import PolicyClosed, PolicyUnavailable
from interlock.model.policy.verdict import PolicyRequest, Verdict
from interlock.policy_service import policy_pb2 as wire
from interlock.policy_service.access import Access
from interlock.policy_service.service import PolicyServiceStub, from_verdict, to_request
from interlock.ports.clock import Clock, SystemClock
from interlock.wire.effect import CALL

logger = logging.getLogger("interlock.policy")

CIRCUIT = CircuitRules(failures=3, pause=30.0, longest_pause=30.0, probes=3, successes=2)
LOOK = 5.0  # seconds between two looks at the digest
LARGEST = 32 * 1024 * 1024  # bytes of a frame
OPTIONS = (
    ("grpc.enable_http_proxy", 0),  # a plain connection to this machine must not leave it
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),  # the circuit has the longer pause
    ("grpc.max_receive_message_length", LARGEST),
)


class RemotePolicy:
    def __init__(
        self,
        address: str,
        access: Access,
        on_moved: Callable[[str], None] = lambda digest: None,
        *,
        limit: float = CALL,
        clock: Clock | None = None,
    ) -> None:
        """`on_moved` gets the digest of the policy when it is first seen, whenever it changes, and at each look: the
        scheduler may have lost it with a commit that failed."""
        access.check("policy_service", address)
        self._access = access
        self._channel: grpc.aio.Channel | None = None  # made by the first call, on its loop
        self.address = address
        self.digest = ""  # the last one seen
        self._calls = 0
        self._shown_by = 0  # number of the call that showed the digest; an earlier call may be answered later
        self._on_moved = on_moved
        self._limit = limit
        self.circuit = Circuit(CIRCUIT)
        self._clock = clock or SystemClock()
        self._closed = False

    async def check(self, requests: Sequence[PolicyRequest], again: bool = False) -> list[Verdict]:
        """Return the verdicts on up to 100 requests, in their order; `again` for runs that were judged before. Raise
        `PolicyUnavailable` if the service gives none, or if the circuit is open."""
        if self._closed:
            raise PolicyClosed
        if not self.circuit.allows(self._clock.now().elapsed):
            raise PolicyUnavailable("circuit open after repeated failures; no calls until the pause ends")
        round = self.circuit.begin()
        self._calls += 1
        call = self._calls
        try:
            verdicts = self._read(await self._ask(requests, again), len(requests), call)
        except BaseException as error:
            if isinstance(error, PolicyUnavailable) and not self._closed:
                self._failed(round, error)
            else:
                self.circuit.give_back(round)
            if self._closed and not _is_cancelled():
                raise PolicyClosed from None  # whatever gRPC makes of it
            raise
        self.circuit.succeed(round)
        return verdicts

    @cached_property
    def _stub(self) -> PolicyServiceStub:
        target = f"dns:///{self.address}"
        if self._access.tls:
            credentials = grpc.ssl_channel_credentials(self._access.ca)
            self._channel = grpc.aio.secure_channel(target, credentials, OPTIONS)
        else:
            self._channel = grpc.aio.insecure_channel(target, OPTIONS)
        return PolicyServiceStub(self._channel)

    async def _ask(self, requests: Sequence[PolicyRequest], again: bool) -> list[wire.Answers | None]:
        frame = wire.Frame(requests=[to_request(request) for request in requests], again=again)
        try:
            async with asyncio.timeout(self._limit):
                return [answers async for answers in self._stub.CheckBatch([frame])]
        except TimeoutError:
            raise PolicyUnavailable(f"no answer within {self._limit:g}s") from None
        except grpc.aio.AioRpcError as error:
            raise PolicyUnavailable(f"{error.code().name}: {error.details()}") from None

    def _read(self, answers: list[wire.Answers | None], count: int, call: int) -> list[Verdict]:
        if self._closed:
            raise PolicyClosed
        # gRPC gives None for a message that it cannot read.
        answer = answers[0] if len(answers) == 1 else None
        if answer is None or len(answer.verdicts) != count:
            raise PolicyUnavailable(f"invalid answer: expected {count} verdicts")
        digest = answer.digest
        if not digest:
            raise PolicyUnavailable("invalid answer: no digest of its policy")
        verdicts = [from_verdict(verdict, digest) for verdict in answer.verdicts]
        if call > self._shown_by:
            is_new, self.digest, self._shown_by = digest != self.digest, digest, call
            if is_new or count == 0:
                self._on_moved(digest)
        return verdicts

    def _failed(self, round: int, error: PolicyUnavailable) -> None:
        if self.circuit.fail(round, self._clock.now().elapsed):
            logger.warning("%s fails and is not asked for %.0fs: %s", self.address, CIRCUIT.pause, error.why)

    async def watch(self) -> None:
        """Look at the digest again and again: a policy may change while nothing is asked. This also closes a circuit
        that nobody waits for."""
        while True:
            with suppress(PolicyUnavailable):
                await self.check(())
            await asyncio.sleep(LOOK)

    async def close(self) -> None:
        """End all calls; they raise `PolicyUnavailable`."""
        self._closed = True
        if self._channel is not None:
            await self._channel.close()


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
