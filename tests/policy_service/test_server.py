"""The policy served over gRPC: as generated stubs, health and reflection see it, and as a command."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from hypothesis import given
from hypothesis import strategies as st

from interlock import runtime
from interlock.error import InterlockError, PolicyUnavailable
from interlock.model.policy.document import PolicyDocument
from interlock.model.policy.output import OutputMatch, OutputPolicy, OutputRule
from interlock.model.policy.scanner import OutputAction, ScannerSpec
from interlock.model.policy.verdict import PolicyRequest, Ruling, RunLimits, Verdict
from interlock.policy.policy import Policy
from interlock.policy_service import policy_pb2 as wire
from interlock.policy_service import prepare_grpc
from interlock.policy_service.access import Access
from interlock.policy_service.service import PolicyServiceStub, from_request, from_verdict, to_request, to_verdict
from tests.policy_service.services import ONE, allowing, asking, certificate, served
from tools import proto

NAME = "interlock.policy.v1.PolicyService"
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
TEXTS = st.lists(TEXT, max_size=3).map(tuple)
NAMES = st.none() | st.lists(st.from_regex(r"[!-~]{1,20}", fullmatch=True), max_size=3).map(tuple)
REQUESTS = st.builds(
    PolicyRequest,
    **dict.fromkeys(("job", "topic", "tenant", "actor", "priority", "lane", "job_version"), TEXT),
    **dict.fromkeys(("session", "origin"), st.none() | TEXT),
    **dict.fromkeys(("capabilities", "risk_tags", "requires"), TEXTS),
    labels=st.dictionaries(TEXT, TEXT, max_size=3),
    payload=st.binary(max_size=30),
    secrets=st.booleans(),
)
LIMITS = st.builds(
    RunLimits,
    max_runtime=st.none() | st.floats(0.001, 1e6),
    **dict.fromkeys(("max_retries", "max_output"), st.none() | st.integers(0, 10**9)),
    max_concurrent=st.none() | st.integers(1, 10**9),
    **dict.fromkeys(("environment", "tools"), NAMES),
    sandbox=st.none() | st.just("box"),
)
VERDICTS = st.builds(
    Verdict,
    ruling=st.sampled_from(Ruling),
    rule=TEXT,
    reason=TEXT,
    limits=st.none() | LIMITS,
    policy=st.just("d"),
    notes=TEXTS,
)


def test_every_field_travels() -> None:
    assert set(wire.Request.DESCRIPTOR.fields_by_name) == set(PolicyRequest.__struct_fields__)
    assert set(wire.Limits.DESCRIPTOR.fields_by_name) == set(RunLimits.__struct_fields__)
    assert {*wire.Verdict.DESCRIPTOR.fields_by_name, "policy"} == set(Verdict.__struct_fields__)


@given(REQUESTS, VERDICTS)
def test_requests_and_verdicts_arrive_as_they_were_sent(request: PolicyRequest, verdict: Verdict) -> None:
    sent = wire.Request.FromString(to_request(request).SerializeToString())
    assert from_request(sent) == request
    answered = wire.Verdict.FromString(to_verdict(verdict).SerializeToString())
    assert from_verdict(answered, "d") == verdict


def test_the_stubs_are_current(tmp_path: Path) -> None:
    for made in proto.generate(tmp_path):
        committed = Path("src") / made.relative_to(tmp_path)
        assert made.read_text() == committed.read_text(), f"{committed} is old; run python -m tools.proto"


@pytest.mark.behaviour("POL-9")
async def test_any_client_can_check_stream_and_look_around() -> None:
    policy = allowing("mail")
    async with served(policy) as (_, address), grpc.aio.insecure_channel(address) as channel:
        stub = PolicyServiceStub(channel)
        answers = [await stub.Check(wire.Request(topic=topic)) for topic in ("mail", "other")]
        assert [one.verdict.ruling for one in answers] == [wire.RULING_ALLOW, wire.RULING_DENY]
        assert {one.digest for one in answers} == {policy.digest}
        frames = [wire.Frame(id=id, requests=[wire.Request(topic="mail")] * count) for id, count in ((7, 100), (3, 0))]
        found = [(one.id, len(one.verdicts)) async for one in stub.CheckBatch(frames)]
        assert found == [(7, 100), (3, 0)]
        with pytest.raises(grpc.aio.AioRpcError, match="101 in a frame; the limit is 100"):
            _ = [one async for one in stub.CheckBatch([wire.Frame(requests=[wire.Request()] * 101)])]
        assert await _health(channel) == health_pb2.HealthCheckResponse.SERVING
        assert NAME in await _services(channel)


CARD = b'{"note": "card 4111 1111 1111 1111"}'
OUTPUT = OutputPolicy(
    rules=(
        OutputRule(id="large", match=OutputMatch(over=1000), decision=OutputAction.DENY, reason="too large"),
        OutputRule(
            id="confidential", match=OutputMatch(sensitivity=("confidential",)), decision=OutputAction.QUARANTINE
        ),
    ),
    scanners=(
        ScannerSpec(scanner="personal_data", action="redact"),
        ScannerSpec(scanner="keywords", words=("secret",)),
    ),
)
NO_OUTPUT = PolicyDocument(id="none")


@pytest.mark.behaviour("POL-9")
@pytest.mark.parametrize(
    ("document", "asked", "decision", "rest"),
    [
        (NO_OUTPUT, {"size": 5000, "content": CARD}, "ALLOW", {}),
        (OUTPUT, {"size": 1000}, "ALLOW", {}),
        (OUTPUT, {"size": 1001}, "DENY", {"rule": "large", "reason": "too large"}),
        (OUTPUT, {"size": 1, "content": b" " * 1001}, "DENY", {"rule": "large", "reason": "too large"}),
        (OUTPUT, {"sensitivity": "confidential", "content": CARD}, "QUARANTINE", {"rule": "confidential"}),
        (OUTPUT, {"content": b'{"note": "fine"}'}, "ALLOW", {}),
        (OUTPUT, {"content": b"the secret", "content_type": "text/plain"}, "QUARANTINE", {}),
        (OUTPUT, {"content": CARD}, "REDACT", {"redacted": b'{"note": "card [redacted:card]"}'}),
    ],
)
def test_results_are_judged_by_metadata_and_content(
    document: PolicyDocument | OutputPolicy, asked: dict[str, Any], decision: str, rest: dict[str, Any]
) -> None:
    policy = Policy(document if isinstance(document, PolicyDocument) else PolicyDocument(id="o", output=document))

    async def body() -> Any:
        async with served(policy) as (_, address), grpc.aio.insecure_channel(address) as channel:
            return await PolicyServiceStub(channel).CheckOutput(wire.Output(**asked))

    answer = runtime.run(body())
    assert (answer.digest, wire.OutputDecision.Name(answer.decision)) == (policy.digest, f"OUTPUT_DECISION_{decision}")
    assert {"rule": answer.rule, "reason": answer.reason, "redacted": answer.redacted} == {
        "rule": "", "reason": "", "redacted": b"", **rest
    }  # fmt: skip
    assert bool(answer.findings) == (decision != "ALLOW" and not answer.rule)
    assert not any(b"4111" in one.SerializeToString() for one in answer.findings)


async def test_a_scanner_of_an_app_is_not_in_the_service() -> None:
    output = OutputPolicy(scanners=(ScannerSpec(scanner="python", name="own"),))
    policy = Policy(PolicyDocument(id="o", output=output))
    async with served(policy) as (_, address), grpc.aio.insecure_channel(address) as channel:
        stub = PolicyServiceStub(channel)
        assert (await stub.CheckOutput(wire.Output(size=1))).decision == wire.OUTPUT_DECISION_ALLOW
        with pytest.raises(grpc.aio.AioRpcError, match=r"'own' is not the name of a function") as caught:
            await stub.CheckOutput(wire.Output(content=b"{}"))
        assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION


async def _health(channel: Any) -> Any:
    return (await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=NAME))).status


async def _services(channel: Any) -> list[str]:
    call = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(
        iter([reflection_pb2.ServerReflectionRequest(list_services="")])
    )
    return [service.name async for one in call for service in one.list_services_response.service]


# ── the command ───────────────────────────────────────────────────────────────────────────────────────────────────────

POLICY = "kind: Policy\nid: test\nrules:\n  - {{id: some, match: {{topics: [{}]}}, decision: allow}}\n"


class Command:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def line(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.readline().strip()


@contextmanager
def serving(*arguments: str, **environment: str) -> Iterator[Command]:
    command = [sys.executable, "-m", "interlock.cli", "policy", "serve", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | environment) as process:
        try:
            yield Command(process)
        finally:
            process.kill()


def address_of(line: str) -> str:
    return "localhost:" + line.split(" on ")[1].split()[0].rpartition(":")[2]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY.format("mail"))
    return file


@pytest.mark.behaviour("POL-9")
def test_the_command_serves_reloads_and_stops(file: Path) -> None:
    def write(text: str) -> None:
        file.write_text(text)

    async def rulings(remote: Any) -> list[Ruling]:
        return [one.ruling for one in await remote.check([ONE])]

    async def body(command: Command, address: str) -> None:
        async with asking(address) as remote:
            assert await rulings(remote) == [Ruling.ALLOW]
            write("kind: Policy\nid: test\nrulez: []\n")
            command.process.send_signal(signal.SIGHUP)
            assert "policy.yaml:3: rulez: unknown field" in command.line()
            assert command.line() == "the policy stays as it was"
            assert await rulings(remote) == [Ruling.ALLOW]
            write(POLICY.format("other"))
            command.process.send_signal(signal.SIGHUP)
            assert command.line().startswith("reloaded policy: test (")
            assert await rulings(remote) == [Ruling.DENY]
            command.process.terminate()
            assert command.line() == "stopped"
            assert await asyncio.to_thread(command.process.wait) == 0
            with pytest.raises(PolicyUnavailable):
                await remote.check([ONE])

    with serving(str(file), "--listen", "127.0.0.1:0") as command:
        line = command.line()
        assert line.startswith("policy: test (")
        assert line.endswith("without encryption")
        runtime.run(body(command, address_of(line)))


@pytest.mark.behaviour("POL-9", "POL-11")
def test_the_command_with_tls_and_killed(file: Path, tmp_path: Path) -> None:
    certificate(tmp_path, "localhost")
    pem = str(tmp_path / "localhost.pem")

    async def body(command: Command, address: str) -> None:
        async with asking(address, Access.of({"SAFETY_KERNEL_TLS_CA": pem})) as remote:
            assert len(await remote.check([ONE] * 100)) == 100
            asked = [asyncio.ensure_future(remote.check([ONE] * 100)) for _ in range(20)]
            done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            assert done
            command.process.kill()
            answers = await asyncio.gather(*asked, return_exceptions=True)
            assert all(isinstance(one, PolicyUnavailable) or len(one) == 100 for one in answers)  # type: ignore[arg-type] # a list
            with pytest.raises(PolicyUnavailable):
                await remote.check([ONE])

    tls = ("--tls-cert", pem, "--tls-key", str(tmp_path / "localhost.key"))
    with serving(str(file), "--listen", "0.0.0.0:0", *tls) as command:
        line = command.line()
        assert line.endswith("with TLS")
        runtime.run(body(command, address_of(line)))


@pytest.mark.behaviour("POL-9")
@pytest.mark.parametrize(
    ("arguments", "environment", "fault"),
    [
        (["--listen", "0.0.0.0:0"], {}, "--listen: other machines can reach 0.0.0.0:0"),
        (["--listen", "[::]:0"], {}, "--listen: other machines can reach [::]:0"),
        (["--listen", "0.0.0.0:0"], {"SAFETY_KERNEL_INSECURE": "false"}, "--listen: other machines"),
        (["--listen", "off"], {}, "--listen: 'off' is not 'host:port'"),
        (["--tls-cert", "x"], {}, "--tls-cert, --tls-key: give both or neither"),
        (["--tls-cert", "x", "--tls-key", "y"], {}, "--tls-key: 'y' is not a file that can be read"),
        (
            ["--tls-cert", __file__, "--tls-key", __file__],
            {},
            "--tls-cert, --tls-key: not a certificate and its private key",
        ),
        (["--listen", "192.0.2.1:1"], {"SAFETY_KERNEL_INSECURE": "true"}, "cannot listen on 192.0.2.1:1"),
    ],
)
def test_the_command_refuses(file: Path, arguments: list[str], environment: dict[str, str], fault: str) -> None:
    with serving(str(file), *arguments, **environment) as command:
        _, errors = command.process.communicate(timeout=20)
    assert command.process.returncode
    assert f"error: {fault}" in errors or f"error: socket: {fault}" in errors
    assert "Traceback" not in errors


def test_a_file_without_a_policy_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("kind: Job\nid: a\nrun: {process: [echo]}\n")
    with serving(str(tmp_path / "empty.yaml")) as command:
        _, errors = command.process.communicate(timeout=20)
    assert "no document has 'kind: Policy'" in errors


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.policy_service.find_spec", lambda name: None)
    with pytest.raises(InterlockError, match=r"^policy_service: gRPC is not installed; .*'interlock\[grpc\]'$"):
        prepare_grpc("policy_service")
