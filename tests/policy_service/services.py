"""Policy services for tests: real ones, and ones that misbehave."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc

from interlock.model.policy.document import Match, PolicyDocument, Rule
from interlock.model.policy.verdict import PolicyRequest, Ruling
from interlock.policy.policy import Policy
from interlock.policy_service import policy_pb2 as wire
from interlock.policy_service.access import Access
from interlock.policy_service.client import RemotePolicy
from interlock.policy_service.server import PolicyServer
from interlock.policy_service.service import add_service

ONE = PolicyRequest(job="mail", topic="mail")
PLAIN = Access()
Reply = Callable[[wire.Frame], Any]


def allowing(*topics: str) -> Policy:
    """Return a policy that allows these topics and denies the rest."""
    rules = (Rule(id="some", match=Match(topics=topics), decision=Ruling.ALLOW),)
    return Policy(PolicyDocument(id="test", rules=rules))


@asynccontextmanager
async def served(policy: Policy, tls: tuple[bytes, bytes] | None = None) -> AsyncIterator[tuple[PolicyServer, str]]:
    """Serve a policy; yield the server and its address."""
    server = PolicyServer(policy)
    port = await server.start("127.0.0.1:0", tls)
    try:
        yield server, f"localhost:{port}"
    finally:
        await server.stop()


class Scripted:
    """A service whose answers the test makes: bytes or messages, one or several."""

    def __init__(self, reply: Reply) -> None:
        self.reply, self.calls = reply, 0
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def CheckBatch(  # noqa: N802 - named by gRPC
        self, request_iterator: AsyncIterator[wire.Frame], context: Any
    ) -> AsyncIterator[Any]:
        self.calls += 1
        async for frame in request_iterator:
            self.asked.set()
            await self.may_answer.wait()
            made = self.reply(frame)
            for one in made if isinstance(made, list) else [made]:
                yield one


@asynccontextmanager
async def scripted(reply: Reply) -> AsyncIterator[tuple[Scripted, Any, str]]:
    """Serve scripted answers; yield the service, its server and its address."""
    service = Scripted(reply)
    server = grpc.aio.server()
    add_service(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield service, server, f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


@asynccontextmanager
async def asking(address: str, access: Access = PLAIN, **more: Any) -> AsyncIterator[RemotePolicy]:
    remote = RemotePolicy(address, access, **more)
    try:
        yield remote
    finally:
        await remote.close()


def allow(frame: wire.Frame, digest: str = "d1") -> wire.Answers:
    verdicts = [wire.Verdict(ruling=wire.RULING_ALLOW) for _ in frame.requests]
    return wire.Answers(id=frame.id, digest=digest, verdicts=verdicts)


def certificate(folder: Path, name: str) -> tuple[bytes, bytes]:
    """Make a private key and its own certificate for a host."""
    key, cert = folder / f"{name}.key", folder / f"{name}.pem"
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    subject = ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"]
    subprocess.run([*made, *subject, "-out", str(cert), "-keyout", str(key)], check=True, capture_output=True)
    return key.read_bytes(), cert.read_bytes()
