"""Requests to real servers: what is sent, and what counts as a failure."""

import asyncio
import socket
import ssl
import subprocess
import tracemalloc
from pathlib import Path

import pytest
from aiohttp import web

from interlock import runtime
from interlock.model.delivery import LONGEST_ANSWER, Outgoing
from interlock.sender.http_transport import HttpTransport, signed_headers
from interlock.sender.transport import ReceivedAnswer
from tests.sender.http import NOW, at, exchange, in_turn, never, outgoing, post, receiver


@pytest.mark.behaviour("CON-7")
def test_a_request_carries_body_signature_and_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "whsec_c2VjcmV0")
    monkeypatch.setenv("TOKEN", "t0ken")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    seen: list[web.BaseRequest] = []

    async def handler(request: web.BaseRequest) -> web.Response:
        seen.append(request)
        assert await request.read() == b'{"n": 1}'
        answer = web.Response(text="thanks")
        answer.set_cookie("a", "b")
        return answer

    def request(port: int) -> Outgoing:
        return at(port, "/a%2Fb?key=%2Fx", secret_env="SECRET", token_env="TOKEN")

    assert exchange(handler, request) == ReceivedAnswer(200, "thanks", "")
    headers = seen[0].headers
    assert seen[0].method == "POST"
    assert seen[0].raw_path == "/a%2Fb?key=%2Fx"
    assert {name: headers[name] for name in headers if name.startswith("webhook-")} == signed_headers(
        "d1", NOW, b'{"n": 1}', "whsec_c2VjcmV0"
    )
    assert headers["Authorization"] == "Bearer t0ken"
    assert headers["User-Agent"] == "interlock"
    assert headers["Content-Type"] == "application/cloudevents+json"


def test_no_cookie_is_sent_back_and_nothing_is_signed_without_a_secret() -> None:
    seen: list[web.BaseRequest] = []

    async def handler(request: web.BaseRequest) -> web.Response:
        seen.append(request)
        answer = web.Response()
        answer.set_cookie("a", "b")
        return answer

    async def body() -> None:
        async with receiver(handler) as port:
            await in_turn(HttpTransport(), at(port), at(port))

    runtime.run(body())
    assert len(seen) == 2
    assert not {"Cookie", "Authorization", "webhook-signature"} & set(seen[1].headers)


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_success(status: int) -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        return web.Response(status=status)

    assert exchange(handler, at) == ReceivedAnswer(status, "", "")


@pytest.mark.parametrize("status", [304, 400, 404, 410, 429, 500, 503])
def test_every_other_answer_is_a_failure(status: int) -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        return web.Response(status=status, text=None if status == 304 else "why")

    answer = exchange(handler, at)
    assert (answer.status, answer.error) == (status, f"answered {status}")
    assert answer.host_is_well == (status < 500 and status != 429)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_a_failure_and_the_other_host_gets_nothing(status: int) -> None:
    asked: list[str] = []

    async def other(request: web.BaseRequest) -> web.Response:
        asked.append(request.path)
        return web.Response()

    async def body() -> ReceivedAnswer:
        async with receiver(other) as elsewhere:

            async def handler(request: web.BaseRequest) -> web.Response:
                return web.Response(status=status, headers={"Location": f"http://localhost:{elsewhere}/x?key=s3cret"})

            async with receiver(handler) as port:
                return await in_turn(HttpTransport(), at(port))

    assert runtime.run(body()) == ReceivedAnswer(status, "", "redirects are not followed (to localhost)")
    assert asked == []


@pytest.mark.behaviour("CON-7")
def test_a_receiver_that_never_answers_is_left_after_the_timeout() -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        await never()

    answer = exchange(handler, lambda port: at(port, timeout=0.2))
    assert answer == ReceivedAnswer(error="no answer within 0.2s")
    assert not answer.host_is_well


def test_an_answer_that_never_ends_counts_by_its_status() -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"beginning")
        await never()

    assert exchange(handler, lambda port: at(port, timeout=0.5)) == ReceivedAnswer(200, "beginning", "")


def test_only_the_beginning_of_a_huge_answer_is_read() -> None:
    total, sent = 100 * 1024 * 1024, 0

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse(headers={"Content-Length": str(total)})
        await response.prepare(request)
        piece = b"\xff" + b"x" * 65535
        while sent < total:
            await response.write(piece)
            sent += len(piece)
        return response

    tracemalloc.start()
    answer = exchange(handler, at)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert answer == ReceivedAnswer(200, "\N{REPLACEMENT CHARACTER}" + "x" * (LONGEST_ANSWER - 1), "")
    assert sent < total
    assert peak < 20 * 1024 * 1024


def test_a_compressed_answer_stays_as_it_is() -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        assert request.headers["Accept-Encoding"] == "identity"
        return web.Response(body=b"not gzip at all", headers={"Content-Encoding": "gzip"})

    assert exchange(handler, at) == ReceivedAnswer(200, "not gzip at all", "")


def raw(reply: bytes | None) -> ReceivedAnswer:
    """Return the answer to a request to a server that sends these bytes and closes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply or b"")
        writer.close()

    async def body() -> ReceivedAnswer:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            return await in_turn(HttpTransport(), at(server.sockets[0].getsockname()[1]))

    return runtime.run(body())


@pytest.mark.parametrize(
    ("reply", "error"),
    [(None, "the connection was closed without an answer"), (b"SSH-2.0-x\r\n\r\n", "the answer is not HTTP")],
)
def test_a_server_that_does_not_speak_http(reply: bytes | None, error: str) -> None:
    assert raw(reply) == ReceivedAnswer(error=error)


def test_a_refused_connection_is_a_failure() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        assert post(at(bound.getsockname()[1])) == ReceivedAnswer(error="connection refused")


def test_a_name_that_does_not_exist_is_a_failure() -> None:
    assert post(outgoing("http://nowhere.invalid/")) == ReceivedAnswer(error="the host name cannot be resolved")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    files = folder / "cert.pem", folder / "key.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command = [*made, "-days", "2", *subject, "-out", str(files[0]), "-keyout", str(files[1])]
    subprocess.run(command, check=True, capture_output=True)
    return files


def over_tls(certificate: tuple[Path, Path], host: str) -> ReceivedAnswer:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)

    async def handler(request: web.BaseRequest) -> web.Response:
        return web.Response(text="secure")

    async def body() -> ReceivedAnswer:
        async with receiver(handler, context) as port:
            return await in_turn(HttpTransport(), outgoing(f"https://{host}:{port}/"))

    return asyncio.run(body())


def test_an_unknown_certificate_is_refused_unless_its_authority_is_trusted(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = over_tls(certificate, "localhost")
    assert answer.status is None
    assert answer.error.startswith("the certificate is not valid (self")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    assert over_tls(certificate, "localhost") == ReceivedAnswer(200, "secure", "")
    assert "not valid" in over_tls(certificate, "127.0.0.1").error


@pytest.mark.behaviour("CON-7")
@pytest.mark.parametrize("fresh", [False, True])
def test_a_connection_that_the_receiver_has_closed_costs_no_try(fresh: bool) -> None:
    """The receiver says that it keeps connections, and closes each one after its first answer."""
    connections: list[bool] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(True)
        await reader.readuntil(b'{"n": 1}')
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        await reader.read(1) if len(connections) == 1 else b""  # the first goes as the next request begins
        writer.close()

    async def body() -> list[ReceivedAnswer]:
        transport = HttpTransport()
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            found = [await transport.post("d1", at(port), NOW, fresh) for _ in range(2)]
            await transport.close()
            return found

    assert runtime.run(body()) == [ReceivedAnswer(200), ReceivedAnswer(200)]
    assert len(connections) == 2
