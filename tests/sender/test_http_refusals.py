"""Requests that are not made: refused addresses and bad variables; and secrets, which no answer or error shows."""

import asyncio
import socket
from typing import Any

import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

from interlock import runtime
from interlock.model.delivery import LONGEST_ANSWER, Outgoing
from interlock.sender.http_transport import HttpTransport
from interlock.sender.transport import ReceivedAnswer
from tests.sender.http import NOW, exchange, in_turn, outgoing, post, receiver

METADATA = "169.254.169.254"


class Names(AbstractResolver):
    """Names with addresses, one for each question; the last for all that follow."""

    def __init__(self, **addresses: list[str]) -> None:
        self._addresses = addresses

    async def resolve(self, host: str, port: int = 0, family: Any = socket.AF_UNSPEC) -> list[ResolveResult]:
        known = self._addresses[host.partition(".")[0]]
        found = (known.pop(0) if len(known) > 1 else known[0]).split()
        return [
            ResolveResult(
                hostname=host, host=one, port=port, proto=0, flags=0,
                family=socket.AF_INET6 if ":" in one else socket.AF_INET,
            )
            for one in found
        ]  # fmt: skip

    async def close(self) -> None: ...


@pytest.mark.parametrize(
    "host",
    [
        METADATA, "[fe80::1]", "[::ffff:169.254.169.254]", "[2002:a9fe:a9fe::1]", "[64:ff9b::a9fe:a9fe]", "0.0.0.0",
        "[::]", "2852039166", "0xa9fea9fe", "169.254.43518", "0251.0376.0251.0376",
    ],
)  # fmt: skip
def test_no_form_of_a_refused_address_is_connected_to(host: str) -> None:
    answer = post(outgoing(f"http://{host}:9/", timeout=5))
    # The library does not even look up most odd numbers.
    assert answer.error == "the URL is not valid" or answer.error.endswith("is refused; allow it with webhook_allow")
    assert not answer.made


@pytest.mark.parametrize("host", ["127.0.0.1", "0x7f000001", "localhost", "[::ffff:127.0.0.1]"])
def test_loopback_is_allowed_in_every_form(host: str) -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        return web.Response()

    assert exchange(handler, lambda port: outgoing(f"http://{host}:{port}/")).status == 200


def test_a_name_with_a_refused_address_is_refused() -> None:
    transport = HttpTransport(resolver=Names(metadata=[METADATA]))
    answer = post(outgoing("http://metadata.internal/latest"), transport)
    assert answer == ReceivedAnswer(error=f"address {METADATA} is refused; allow it with webhook_allow", made=False)


def test_a_name_that_changes_its_address_is_refused_from_then_on() -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        return web.Response()

    async def body() -> list[str]:
        transport = HttpTransport(resolver=Names(rebinding=["127.0.0.1", METADATA]))
        async with receiver(handler) as port:
            request = outgoing(f"http://rebinding.test:{port}/")
            found = [(await transport.post("d1", request, NOW, fresh=True)).error for _ in range(2)]
        await transport.close()
        return found

    assert runtime.run(body()) == ["", f"address {METADATA} is refused; allow it with webhook_allow"]


def test_of_several_addresses_only_those_that_are_not_refused_are_tried() -> None:
    made: list[str] = []

    async def handler(request: web.BaseRequest) -> web.Response:
        return web.Response()

    async def body() -> ReceivedAnswer:
        transport = HttpTransport(resolver=Names(many=[f"fe80::1 {METADATA} ::ffff:{METADATA} 127.0.0.1"]))
        loop = asyncio.get_running_loop()
        connect = loop.sock_connect

        async def noted(sock: socket.socket, address: Any) -> None:
            made.append(address[0])
            await connect(sock, address)

        loop.sock_connect = noted  # type: ignore[method-assign] # the loop is the only one that sees each address
        async with receiver(handler) as port:
            return await in_turn(transport, outgoing(f"http://many.test:{port}/"))

    assert asyncio.run(body()).status == 200
    assert made == ["127.0.0.1"]


def test_a_resolver_that_returns_a_name_is_not_believed() -> None:
    answer = post(outgoing("http://odd.test/"), HttpTransport(resolver=Names(odd=["localhost"])))
    assert answer.error == "address localhost is refused; allow it with webhook_allow"


@pytest.mark.parametrize("allowed", ["0.0.0.0", "0.0.0.0/8", "any.test"])
def test_an_address_can_be_allowed(allowed: str) -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        return web.Response()

    # The unspecified address is the only refused one that reaches this machine.
    transport = HttpTransport([allowed], Names(any=["0.0.0.0"]))
    assert exchange(handler, lambda port: outgoing(f"http://any.test:{port}/"), transport).status == 200


# Variables.


@pytest.mark.parametrize("name", ["url_env", "secret_env", "token_env"])
def test_a_variable_that_is_not_set_is_named(name: str) -> None:
    url = None if name == "url_env" else "http://127.0.0.1:9/"
    answer = post(outgoing(url, **{name: "ABSENT"}))
    assert answer == ReceivedAnswer(error="environment variable ABSENT is not set", made=False)


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("url_env", "ftp://s3cret/", "environment variable X does not hold a URL"),
        ("url_env", "s3cret", "environment variable X does not hold a URL"),
        ("secret_env", "whsec_s3cret!", "environment variable X begins with whsec_, but the rest is not base64"),
        ("token_env", "s3cret\r\nHost: x", "environment variable X holds characters that a header cannot carry"),
    ],
)
def test_a_bad_variable_is_named_without_its_value(
    name: str, value: str, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("X", value)
    url = None if name == "url_env" else "http://127.0.0.1:9/"
    assert post(outgoing(url, **{name: "X"})) == ReceivedAnswer(error=error, made=False)


def test_neither_answer_nor_error_holds_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "t0ken")
    monkeypatch.setenv("SECRET", "s3cret")

    async def handler(request: web.BaseRequest) -> web.Response:
        said = f"{request.url} {request.headers['Authorization']} s3cret"
        return web.Response(status=307, text=said, headers={"Location": str(request.url)})

    def request(port: int) -> Outgoing:
        monkeypatch.setenv("URL", f"http://localhost:{port}/?key=1")
        return outgoing(None, url_env="URL", token_env="TOKEN", secret_env="SECRET")

    answer = exchange(handler, request)
    assert answer == ReceivedAnswer(307, "… Bearer … …", "redirects are not followed (to …)")


@pytest.mark.parametrize("url", ["http://nowhere.invalid/?key=s3cret", "http://127.0.0.1:1/?key=s3cret"])
def test_no_error_holds_the_query_or_a_secret_url(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("URL", url)
    for request in (outgoing(url), outgoing(None, url_env="URL")):
        error = post(request).error
        assert error
        assert not {"s3cret", "nowhere", "127.0.0.1"} & set(error.replace("/", " ").split())
        assert "s3cret" not in error


@pytest.mark.behaviour("SEC-5")
def test_what_a_receiver_repeats_of_a_secret_url_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many servers name the path in their answer; the last bytes that are kept may be in the middle of it."""
    path = "/services/T00/B00/TOPSECRETXYZ?key=t%2Bken12345"

    async def handler(request: web.BaseRequest) -> web.Response:
        text = f"Cannot POST {request.raw_path} t+ken12345 ".ljust(LONGEST_ANSWER - 8, ".") + "TOPSECRETXYZ"
        return web.Response(status=404, text=text)

    def request(port: int) -> Outgoing:
        monkeypatch.setenv("CHAT_URL", f"http://127.0.0.1:{port}{path}")
        return outgoing(None, url_env="CHAT_URL")

    answer = exchange(handler, request)
    assert answer.status == 404
    assert not any(part in answer.text for part in ("TOPSECRE", "services", "ken12345", "127.0.0.1"))
    assert len(answer.text) <= LONGEST_ANSWER
