"""The policy service as a scheduler asks it: real verdicts, or none at all."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from interlock import runtime
from interlock.error import InterlockError, PolicyClosed, PolicyUnavailable
from interlock.model.policy.document import Match, PolicyDocument, Rule, Velocity
from interlock.model.policy.verdict import PolicyRequest, Ruling, RunLimits, Verdict
from interlock.model.run import Now
from interlock.policy.policy import Policy
from interlock.policy.velocity import Windows
from interlock.policy_service import policy_pb2 as wire
from interlock.policy_service.access import Access
from interlock.ports.clock import Clock
from tests.policy_service.services import ONE, PLAIN, allow, allowing, asking, certificate, scripted, served

SHORT = 0.05  # seconds for an answer that does not come


class HandClock(Clock):
    wall = 1000.0

    def now(self) -> Now:
        return Now(self.wall, self.wall)


def requests(count: int) -> list[PolicyRequest]:
    return [
        PolicyRequest(
            job=f"job{number % 7}",
            topic=("mail", "billing.pay", "billing.read", "other")[number % 4],
            tenant=("default", "acme")[number % 2],
            actor=f"actor{number % 3}",
            behind=() if number % 8 else ("refused",),
            session=None if number % 5 else "s",
            labels={"team": f"t{number % 3}"} if number % 2 else {},
            capabilities=("net",) if number % 3 else (),
            payload=b'{"n": %d}' % number,
            secrets=number % 6 == 0,
        )
        for number in range(count)
    ]


DOCUMENT = PolicyDocument(
    id="test",
    rules=(
        Rule(id="refused", match=Match(actors=("refused",)), decision=Ruling.DENY),
        Rule(id="secret", match=Match(secrets=True), decision=Ruling.ASK, reason="has secrets"),
        Rule(id="busy", velocity=Velocity(max_requests=60, window="1h"), decision=Ruling.THROTTLE),
        Rule(
            id="limited",
            match=Match(topics=("billing.*",), tenants=("acme",)),
            decision=Ruling.CONSTRAIN,
            limits=RunLimits(max_runtime="5m", max_retries=0, environment=(), tools=("a", "b"), sandbox="box"),
        ),
        Rule(id="team", match=Match(labels={"team": "t1"}), decision=Ruling.DENY, reason="not t1"),
        Rule(id="net", match=Match(capabilities=("net",)), decision=Ruling.ALLOW),
    ),
)


@pytest.mark.behaviour("POL-9")
def test_the_service_answers_like_the_policy_in_the_process() -> None:
    policy = Policy(DOCUMENT)
    asked = requests(100)
    windows = Windows()
    expected = [policy.judge(one, windows, 0.0) for one in asked]
    again = [policy.judge(one, None, 0.0) for one in asked]
    assert {one.ruling for one in expected} == set(Ruling)
    assert sum(one.rule == "refused" for one in expected) == 13
    assert Ruling.THROTTLE not in {one.ruling for one in again}

    async def body() -> list[list[Verdict]]:
        async with served(policy) as (_, address), asking(address) as remote:
            return [await remote.check(asked), await remote.check(asked, again=True), await remote.check(())]

    found = runtime.run(body())
    assert {one.policy for verdicts in found for one in verdicts} == {policy.digest}
    bare = [[replace(one, policy="") for one in verdicts] for verdicts in found]
    assert bare == [[replace(one, policy="") for one in verdicts] for verdicts in (expected, again, [])]


def _answer(ruling: Any = wire.RULING_ALLOW, digest: str = "d", count: int = 1, **limits: Any) -> wire.Answers:
    verdict = wire.Verdict(ruling=ruling, limits=wire.Limits(**limits) if limits else None)
    return wire.Answers(digest=digest, verdicts=[verdict] * count)


GARBAGE: list[tuple[Any, str]] = [
    (_answer(digest=""), "no digest"),
    (_answer(count=0), "expected 1 verdicts"),
    (_answer(count=2), "expected 1 verdicts"),
    ([], "expected 1 verdicts"),
    ([_answer(), _answer()], "expected 1 verdicts"),
    (wire.Verdict(reason="another message"), "invalid answer"),
    (wire.Frame(id=1, requests=[wire.Request(job="x")]), "invalid answer"),
]


@pytest.mark.behaviour("POL-11")
@pytest.mark.parametrize(("reply", "why"), GARBAGE)
def test_garbage_is_no_verdict(reply: Any, why: str) -> None:
    assert why in refused_by_script(lambda frame: reply)


@pytest.mark.behaviour("POL-1")
@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (_answer(0), "0 is not a decision"),
        (_answer(99), "99 is not a decision"),
        (_answer(max_runtime=-1.0), "invalid limit: max_runtime"),
        (_answer(max_retries=-1), "invalid limit: max_retries"),
    ],
)
def test_a_verdict_that_is_none_of_the_known_ones_denies(reply: wire.Answers, why: str) -> None:
    """Failing open is for no answer only, and this is one."""

    async def body() -> list[Verdict]:
        async with scripted(lambda frame: reply) as (_, _, address), asking(address) as remote:
            return await remote.check([ONE])

    [verdict] = runtime.run(body())
    assert (verdict.ruling, verdict.policy) == (Ruling.DENY, "d")
    assert verdict.reason.startswith(why)


def refused_by_script(reply: Callable[[wire.Frame], Any]) -> str:
    async def body() -> str:
        async with scripted(reply) as (_, _, address):
            return await refusal(address)

    return runtime.run(body())


async def refusal(address: str, access: Access = PLAIN, **more: float) -> str:
    async with asking(address, access, **more) as remote:
        with pytest.raises(PolicyUnavailable) as caught:
            await remote.check([ONE])
        return caught.value.why


def test_an_error_of_the_service_is_no_verdict() -> None:
    assert "UNKNOWN" in refused_by_script(lambda frame: 1 / 0)


@asynccontextmanager
async def speaking(text: bytes) -> AsyncIterator[str]:
    """Accept connections, send a text, and close them."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(text)
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


@pytest.mark.behaviour("POL-10")
def test_a_service_that_accepts_and_never_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        why = runtime.run(refusal(f"127.0.0.1:{listener.getsockname()[1]}", limit=SHORT))
    assert why == "no answer within 0.05s"


@pytest.mark.parametrize("text", [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK", b"\x00" * 64, b""])
def test_something_that_is_no_policy_service(text: bytes) -> None:
    async def body() -> str:
        async with speaking(text) as address:
            return await refusal(address)

    assert "UNAVAILABLE" in runtime.run(body())


def test_nobody_listens() -> None:
    async def body() -> str:
        async with speaking(b"") as address:
            pass
        return await refusal(address)

    assert "UNAVAILABLE" in runtime.run(body())


@pytest.mark.behaviour("POL-10", "POL-11")
def test_a_late_answer_does_not_count() -> None:
    async def body() -> str:
        async with scripted(allow) as (service, _, address):
            service.may_answer.clear()
            why = await refusal(address)
            service.may_answer.set()
            return why

    assert runtime.run(body()) == "no answer within 2s"


async def _kill(service: Any, server: Any, remote: Any, checking: "asyncio.Task[Any]") -> None:
    await server.stop(None)


async def _close(service: Any, server: Any, remote: Any, checking: "asyncio.Task[Any]") -> None:
    await remote.close()


async def _close_as_it_answers(service: Any, server: Any, remote: Any, checking: "asyncio.Task[Any]") -> None:
    service.may_answer.set()
    await remote.close()


async def _cancel(service: Any, server: Any, remote: Any, checking: "asyncio.Task[Any]") -> None:
    service.may_answer.set()
    checking.cancel()


@pytest.mark.behaviour("POL-11")
@pytest.mark.parametrize(
    ("act", "error"),
    [
        (_kill, PolicyUnavailable),
        (_close, PolicyClosed),
        (_close_as_it_answers, PolicyClosed),
        (_cancel, asyncio.CancelledError),
    ],
)
async def test_an_end_in_the_middle_of_a_call_gives_no_verdict(act: Any, error: type[BaseException]) -> None:
    async with scripted(allow) as (service, server, address), asking(address) as remote:
        service.may_answer.clear()
        checking = asyncio.ensure_future(remote.check([ONE]))
        await service.asked.wait()
        await act(service, server, remote, checking)
        with pytest.raises(error):
            await checking
        if error is PolicyClosed:
            with pytest.raises(PolicyClosed):
                await remote.check([ONE])


@pytest.mark.behaviour("POL-10")
async def test_the_circuit_saves_a_failing_service_from_calls() -> None:
    clock, sound = HandClock(), False
    reply: Callable[[wire.Frame], Any] = lambda frame: allow(frame) if sound else wire.Answers()  # noqa: E731
    async with scripted(reply) as (service, _, address), asking(address, clock=clock) as remote:

        async def tried() -> bool:
            before = service.calls
            with suppress(PolicyUnavailable):
                await remote.check([ONE])
            return service.calls > before

        assert [await tried() for _ in range(5)] == [True, True, True, False, False]
        clock.wall += 29.9
        assert not await tried()
        clock.wall += 0.1
        assert [await tried() for _ in range(2)] == [True, False], "one failure opens it again"
        clock.wall += 30
        sound = True
        assert [await tried() for _ in range(2)] == [True, True]
        sound = False
        assert [await tried() for _ in range(4)] == [True, True, True, False], "it was closed"


async def test_a_cancelled_probe_gives_its_place_back() -> None:
    clock = HandClock()
    async with scripted(lambda frame: wire.Answers()) as (service, _, address):
        async with asking(address, clock=clock) as remote:
            for _ in range(3):
                with pytest.raises(PolicyUnavailable):
                    await remote.check([ONE])
            clock.wall += 30
            for _ in range(5):
                service.may_answer.clear()
                service.asked.clear()
                checking = asyncio.ensure_future(remote.check([ONE]))
                await service.asked.wait()
                checking.cancel()
                await asyncio.wait([checking])


async def test_a_new_policy_is_noticed_by_its_digest() -> None:
    first, second = allowing("mail"), allowing("other")
    seen: list[str] = []
    moved = asyncio.Event()

    def note(digest: str) -> None:
        seen.append(digest)
        moved.set()

    async with served(first) as (server, address), asking(address, on_moved=note) as remote:
        rulings = [(await remote.check([ONE]))[0].ruling for _ in range(2)]
        server.policy = second
        moved.clear()
        watching = asyncio.ensure_future(remote.watch())
        await moved.wait()
        watching.cancel()
        rulings.append((await remote.check([ONE]))[0].ruling)
        assert rulings == [Ruling.ALLOW, Ruling.ALLOW, Ruling.DENY]
        assert remote.digest == second.digest
    assert seen == [first.digest, second.digest]


@pytest.mark.behaviour("POL-7")
async def test_a_late_answer_does_not_bring_an_old_policy_back() -> None:
    seen: list[str] = []
    digests = iter(("new", "old", "new"))
    async with scripted(lambda frame: allow(frame, next(digests))) as (service, _, address):
        async with asking(address, on_moved=seen.append) as remote:
            service.may_answer.clear()
            slow = asyncio.ensure_future(remote.check([ONE]))
            await service.asked.wait()
            held, service.may_answer = service.may_answer, asyncio.Event()
            service.may_answer.set()
            assert (await remote.check([ONE]))[0].policy == "new"
            held.set()
            assert (await slow)[0].policy == "old"
            await remote.check(())  # a look tells it again, in case it was lost
    assert seen == ["new", "new"]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[bytes, bytes]]:
    folder = tmp_path_factory.mktemp("tls")
    return {name: certificate(folder, name) for name in ("localhost", "elsewhere.example")}


@pytest.mark.behaviour("POL-9")
@pytest.mark.parametrize(
    ("serves", "trusts", "why"),
    [
        ("localhost", "localhost", None),
        ("localhost", "elsewhere.example", "UNAVAILABLE"),
        ("elsewhere.example", "elsewhere.example", "UNAVAILABLE"),
        ("localhost", "", "UNAVAILABLE"),  # trusts what the system trusts
        ("localhost", None, "UNAVAILABLE"),  # speaks plain
        (None, "localhost", "UNAVAILABLE"),
    ],
)
async def test_tls(
    keys: dict[str, tuple[bytes, bytes]], serves: str | None, trusts: str | None, why: str | None
) -> None:
    access = Access(ca=keys[trusts][1] if trusts else None, tls=trusts is not None)
    async with served(allowing("mail"), keys[serves] if serves else None) as (_, address):
        if why is not None:
            assert why in await refusal(address, access)
        else:
            async with asking(address, access) as remote:
                assert [one.ruling for one in await remote.check([ONE])] == [Ruling.ALLOW]


CA, REQUIRED, INSECURE = "SAFETY_KERNEL_TLS_CA", "SAFETY_KERNEL_TLS_REQUIRED", "SAFETY_KERNEL_INSECURE"


@pytest.mark.behaviour("POL-9")
@pytest.mark.parametrize(
    ("variables", "address", "fault"),
    [
        ({}, "127.0.0.1:1", None),
        ({}, "127.9.9.9:1", None),
        ({}, "[::1]:1", None),
        ({}, "localhost:1", None),
        ({}, "localhost.example:1", "policy_service: localhost.example:1 is another machine"),
        ({}, "10.0.0.1:1", "policy_service: 10.0.0.1:1 is another machine"),
        ({}, "0.0.0.0:1", "policy_service: 0.0.0.0:1 is another machine"),
        ({INSECURE: ""}, "10.0.0.1:1", "is another machine"),
        ({INSECURE: "false"}, "10.0.0.1:1", "is another machine"),
        ({INSECURE: "true"}, "10.0.0.1:1", None),
        ({REQUIRED: "true"}, "10.0.0.1:1", None),
        ({REQUIRED: "false"}, "10.0.0.1:1", "is another machine"),
        ({CA: "ca.pem"}, "10.0.0.1:1", None),
        ({CA: "ca.pem", INSECURE: "true"}, "10.0.0.1:1", None),
        ({CA: "none.pem"}, "127.0.0.1:1", "SAFETY_KERNEL_TLS_CA: 'none.pem' is not a file that can be read"),
        ({CA: "empty.pem"}, "127.0.0.1:1", "SAFETY_KERNEL_TLS_CA: 'empty.pem' is not a file with certificates"),
        ({INSECURE: "perhaps"}, "127.0.0.1:1", "SAFETY_KERNEL_INSECURE: 'perhaps' is not true or false"),
        ({REQUIRED: "1", INSECURE: "1"}, "127.0.0.1:1", "cannot be combined"),
    ],
)
def test_variables(
    variables: dict[str, str], address: str, fault: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    (tmp_path / "empty.pem").write_text("")

    def read() -> Access:
        access = Access.of(variables)
        access.check("policy_service", address)
        return access

    if fault is None:
        assert read().tls == any(variables.get(name) for name in (CA, REQUIRED))
    else:
        with pytest.raises(InterlockError) as caught:
            read()
        assert fault in str(caught.value)
