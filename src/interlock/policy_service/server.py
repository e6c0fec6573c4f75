"""The policy served over gRPC."""

import asyncio
from collections.abc import AsyncIterator
from functools import lru_cache

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from interlock.error import CannotListen, InterlockError
from interlock.policy.policy import Policy
from interlock.policy.scan import Scan, Scanners
from interlock.policy.scan.detector import CLEAN
from interlock.policy.velocity import Windows
from interlock.policy_service import policy_pb2 as wire
from interlock.policy_service.service import NAME, add_service, from_output, from_request, to_output_answer, to_verdict
from interlock.ports.clock import Clock, SystemClock

MOST = 100  # requests in a frame
MOST_SCANS = 2  # at once, in threads beside the verdicts
LARGEST = 32 * 1024 * 1024  # bytes of a message
GRACE = 2.0  # seconds for calls under way at a stop: as long as their clients wait
OPTIONS = (("grpc.max_receive_message_length", LARGEST), ("grpc.so_reuseport", 0))


class PolicyServer:
    """`policy` may be replaced at any time; the next frame is judged by the new one."""

    def __init__(self, policy: Policy, clock: Clock | None = None) -> None:
        self.policy = policy
        self._windows = Windows()
        self._scanning = asyncio.Semaphore(MOST_SCANS)
        self._clock = clock or SystemClock()
        self._health = health.aio.HealthServicer()
        self._server = grpc.aio.server(options=OPTIONS)
        add_service(self, self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection((NAME, health.SERVICE_NAME, reflection.SERVICE_NAME), self._server)

    async def start(self, address: str, tls: tuple[bytes, bytes] | None = None) -> int:
        """Serve on `host:port`, with a private key and its certificate if given, and return the port."""
        try:
            if tls is None:
                port: int = self._server.add_insecure_port(address)
            else:
                port = self._server.add_secure_port(address, grpc.ssl_server_credentials([tls]))
        except RuntimeError as error:
            raise CannotListen(address, str(error)) from None
        await self._server.start()
        for name in ("", NAME):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        return port

    async def stop(self) -> None:
        await self._health.enter_graceful_shutdown()
        await self._server.stop(GRACE)

    async def Check(self, request: wire.Request, context: object) -> wire.Answer:  # noqa: N802 - named by gRPC
        return wire.Answer(digest=self.policy.digest, verdict=self._judge(request, self._windows))

    async def CheckBatch(  # noqa: N802 - named by gRPC
        self, request_iterator: AsyncIterator[wire.Frame], context: "grpc.aio.ServicerContext"
    ) -> AsyncIterator[wire.Answers]:
        async for frame in request_iterator:
            if len(frame.requests) > MOST:
                why = f"requests: {len(frame.requests)} in a frame; the limit is {MOST}"
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, why)
            windows = None if frame.again else self._windows
            verdicts = [self._judge(request, windows) for request in frame.requests]
            yield wire.Answers(id=frame.id, digest=self.policy.digest, verdicts=verdicts)

    async def CheckOutput(  # noqa: N802 - named by gRPC
        self, request: wire.Output, context: "grpc.aio.ServicerContext"
    ) -> wire.OutputAnswer:
        output, digest = self.policy.output, self.policy.digest
        if output is None:
            return to_output_answer(digest, CLEAN)
        rule = output.judge(from_output(request))
        if rule is not None:
            return to_output_answer(digest, Scan(decision=rule.decision), rule.id, rule.reason)
        if not request.HasField("content"):
            return to_output_answer(digest, CLEAN)
        try:
            scanners = _scanners(output.document.scanners)
        except InterlockError as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
            raise
        async with self._scanning:
            scan = await asyncio.to_thread(scanners.scan, request.content, request.content_type or "application/json")
        return to_output_answer(digest, scan)

    def _judge(self, request: wire.Request, windows: Windows | None) -> wire.Verdict:
        return to_verdict(self.policy.judge(from_request(request), windows, self._clock.now().elapsed))


_scanners = lru_cache(maxsize=1)(Scanners)  # raises for a scanner in Python: only an app has it
