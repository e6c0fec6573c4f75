"""Requests over HTTP, on connections to addresses that were checked as they were opened, signed as Standard Webhooks
describes (https://www.standardwebhooks.com)."""

import asyncio
import hmac
import os
import re
import socket
import ssl
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import unquote, urljoin, urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from interlock.fields.duration import brief
from interlock.model.delivery import LONGEST_ANSWER, Outgoing
from interlock.model.guard import LONGEST_URL, is_url
from interlock.sender.transport import ReceivedAnswer, Transport

IpAddress = IPv4Address | IPv6Address

REFUSED: list[IPv4Network | IPv6Network] = [
    ip_network(network)
    for network in (
        "0.0.0.0/8", "::/128", "224.0.0.0/4", "255.255.255.255/32", "ff00::/8",  # unspecified, multicast, broadcast
        "169.254.0.0/16", "fe80::/10", "fec0::/10",  # link-local, and site-local of old
        # metadata of clouds
        "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::/32", "fd20:ce::/32", "fd00:c1::/32",
    )
]  # fmt: skip
_ENDS_WITH_IPV4 = [
    ip_network(network) for network in ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")
]


class AddressGuard:
    """Refuses addresses by which a machine in a cloud gives away its credentials, and others that name no host."""

    def __init__(self, allowed: Sequence[str]) -> None:
        """Allow these addresses, networks and host names whatever they are."""
        self._networks: list[IPv4Network | IPv6Network] = []
        self._names: set[str] = set()
        for allowance in allowed:
            try:
                self._networks.append(ip_network(allowance, strict=False))
            except ValueError:
                self._names.add(_plain(allowance))

    def allows_name(self, host: str) -> bool:
        return _plain(host) in self._names

    def allows(self, text: str) -> bool:
        """Return whether a connection to this numeric address is allowed."""
        try:
            address = ip_address(text)
        except ValueError:
            return False
        return self._is_allowed(address) or not any(
            any(target in network for network in REFUSED) and not self._is_allowed(target)
            for target in (address, *_embedded(address))
        )

    def _is_allowed(self, address: IpAddress) -> bool:
        return any(address in network for network in self._networks)


def _plain(host: str) -> str:
    return host.rstrip(".").lower()


def _embedded(address: IpAddress) -> Iterator[IPv4Address]:
    """Yield the IPv4 addresses to which gateways may forward packets to an IPv6 address."""
    if isinstance(address, IPv4Address) or address.is_loopback:
        return
    if any(address in network for network in _ENDS_WITH_IPV4):
        yield IPv4Address(int(address) & 0xFFFFFFFF)
    if address.sixtofour is not None:
        yield address.sixtofour
    yield from address.teredo or ()


PREFIX = "whsec_"


def signed_headers(id: str, now: float, body: bytes, secret: str | None) -> dict[str, str]:
    """Return the headers with id, time and, if a secret is given, signature. Raise `ValueError` for a secret that
    begins with `whsec_` and is not base64."""
    headers = {"webhook-id": id, "webhook-timestamp": str(int(now))}
    if secret is not None:
        content = f"{id}.{int(now)}.".encode() + body
        digest = hmac.digest(_key(secret), content, "sha256")
        headers["webhook-signature"] = f"v1,{b64encode(digest).decode()}"
    return headers


def _key(secret: str) -> bytes:
    if not secret.startswith(PREFIX):
        return secret.encode()
    text = secret.removeprefix(PREFIX)
    return b64decode(text + "=" * (-len(text) % 4), validate=True)


LOOKUPS = 128  # names looked up at the same time, as many as there are requests under way
HIDDEN = "…"
LEAST_HIDDEN = 8  # characters of a part of a secret URL that is a secret by itself
LONGEST_READ = LONGEST_ANSWER + LONGEST_URL  # so that a secret at the cut is seen whole


AddressInfo = tuple[int, int, int, str, tuple[object, ...]]


class RefusedAddress(OSError):
    """The address of a host must not be connected to."""


class NotMade(Exception):
    """A request cannot be made; its text says why."""


class Resolver(AbstractResolver):
    """Looks names up in threads of its own: uvloop has few, which one slow name server would keep busy."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(LOOKUPS, "lookup")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        look = asyncio.get_running_loop().run_in_executor
        found = await look(self._threads, socket.getaddrinfo, host, port, family, socket.SOCK_STREAM)
        return [
            ResolveResult(hostname=host, host=str(address[0]), port=port, family=kind, proto=proto, flags=0)
            for kind, _, proto, _, address in found
        ]

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class HttpTransport(Transport):
    def __init__(self, allowed: Sequence[str] = (), resolver: AbstractResolver | None = None) -> None:
        self._guard = AddressGuard(allowed)
        self._resolver = resolver or Resolver()
        self._tls = ssl.create_default_context()
        self._sessions: dict[tuple[bool, bool], aiohttp.ClientSession] = {}

    async def close(self) -> None:
        for session in self._sessions.values():
            await session.close()
        await self._resolver.close()

    def _session(self, fresh: bool, any_address: bool) -> aiohttp.ClientSession:
        """Return the session for requests with a fresh connection, or to a host that may have any address."""
        key = fresh, any_address
        if key not in self._sessions:
            connector = aiohttp.TCPConnector(
                ssl=self._tls,
                resolver=self._resolver,
                use_dns_cache=False,
                force_close=fresh,
                limit=0,
                socket_factory=_make_socket if any_address else self._make_checked_socket,
            )
            self._sessions[key] = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
            )
        return self._sessions[key]

    def _make_checked_socket(self, info: AddressInfo) -> socket.socket:
        """Refuse at the last moment, when no name can change its address any more."""
        if not self._guard.allows(address := str(info[4][0])):
            raise RefusedAddress(address)
        return _make_socket(info)

    async def post(self, id: str, outgoing: Outgoing, now: float, fresh: bool = False) -> ReceivedAnswer:
        try:
            url = outgoing.url or _variable(outgoing.url_env) or ""
            if not is_url(url):
                raise NotMade(f"environment variable {outgoing.url_env} does not hold a URL")
            secret, token = _variable(outgoing.secret_env), _variable(outgoing.token_env)
            headers = _headers(id, outgoing, now, secret, token)
        except NotMade as error:
            return ReceivedAnswer(error=str(error), made=False)
        try:
            answer = await self._post(url, headers, outgoing, fresh)
        except aiohttp.ServerDisconnectedError:
            # The receiver may have closed a kept connection.
            answer = await self._post(url, headers, outgoing, fresh=True)
        hidden = [] if outgoing.url is not None else _parts(url)
        hidden += [text for text in (secret, token) if text]
        text = _without(answer.text, hidden)[:LONGEST_ANSWER]
        return ReceivedAnswer(answer.status, text, _without(answer.error, hidden), answer.made)

    async def _post(self, url: str, headers: dict[str, str], outgoing: Outgoing, fresh: bool) -> ReceivedAnswer:
        session = self._session(fresh, self._guard.allows_name(urlsplit(url).hostname or ""))
        try:
            response = await session.post(
                URL(url, encoded=url.isascii()),  # ASCII is sent as it was given
                data=outgoing.body,
                headers=headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=outgoing.timeout),
            )
            async with response:
                return ReceivedAnswer(response.status, await _beginning(response), _error_of(response, url))
        except aiohttp.InvalidURL:
            return ReceivedAnswer(error="the URL is not valid", made=False)
        except Exception as error:
            if isinstance(error, aiohttp.ServerDisconnectedError) and not fresh:
                raise
            refused = _refused(error)
            if refused is not None:
                return ReceivedAnswer(error=f"address {refused} is refused; allow it with webhook_allow", made=False)
            return ReceivedAnswer(error=_reason(error, outgoing.timeout))


def _make_socket(info: AddressInfo) -> socket.socket:
    return socket.socket(*info[:3])


def _refused(error: BaseException | None) -> str | None:
    """Return the address that was refused, if that is behind an error."""
    while error is not None:
        if isinstance(error, RefusedAddress):
            return str(error)
        error = getattr(error, "os_error", None) or error.__cause__ or error.__context__
    return None


def _variable(name: str | None) -> str | None:
    if name is None:
        return None
    if not (value := os.environ.get(name)):
        raise NotMade(f"environment variable {name} is not set")
    return value


def _headers(id: str, outgoing: Outgoing, now: float, secret: str | None, token: str | None) -> dict[str, str]:
    try:
        headers = signed_headers(id, now, outgoing.body, secret)
    except ValueError:
        raise NotMade(
            f"environment variable {outgoing.secret_env} begins with whsec_, but the rest is not base64"
        ) from None
    if token is not None:
        if not (token.isascii() and token.isprintable()):
            raise NotMade(f"environment variable {outgoing.token_env} holds characters that a header cannot carry")
        headers["Authorization"] = f"Bearer {token}"
    # An answer is kept as it comes: decompressing one could take any amount of memory.
    return headers | {
        "Content-Type": outgoing.content_type, "User-Agent": "interlock", "Accept-Encoding": "identity",
    }  # fmt: skip


async def _beginning(response: aiohttp.ClientResponse) -> str:
    data = b""
    # The status is known by now; an answer that breaks off does not change it.
    with suppress(aiohttp.ClientError, TimeoutError):
        while len(data) < LONGEST_READ and (more := await response.content.read(LONGEST_READ - len(data))):
            data += more
    if not response.content.at_eof():
        response.close()  # the rest is not read, so the connection is of no further use
    return data.decode(errors="replace")


def _error_of(response: aiohttp.ClientResponse, url: str) -> str:
    if 200 <= response.status <= 299:
        return ""
    if 300 <= response.status <= 399 and "Location" in response.headers:
        with suppress(ValueError):
            return f"redirects are not followed (to {urlsplit(urljoin(url, response.headers['Location'])).hostname})"
    return f"answered {response.status}"


def _reason(error: Exception, timeout: float) -> str:
    """Return why a request failed, in words that hold nothing of the request."""
    match error:
        case TimeoutError():
            return f"no answer within {brief(timeout)}"
        case aiohttp.ClientConnectorDNSError():
            return "the host name cannot be resolved"
        case aiohttp.ClientConnectorCertificateError():
            why = getattr(error.certificate_error, "verify_message", "")
            return f"the certificate is not valid ({why})" if why else "the certificate is not valid"
        case aiohttp.ClientConnectorSSLError():
            return "TLS failed"
        case aiohttp.ServerDisconnectedError():
            return "the connection was closed without an answer"
        case OSError() if error.errno:
            return os.strerror(error.errno).lower()
        case aiohttp.ClientResponseError():
            return "the answer is not HTTP"
    return f"the request failed ({type(error).__name__})"


def _parts(url: str) -> list[str]:
    """Return what must not be shown of a secret URL, which a receiver may repeat: its parts, the longest first."""
    parts = urlsplit(url)
    found = {url, parts.hostname or url, parts.path, parts.query, f"{parts.path}?{parts.query}"}
    found |= {part for part in re.split(r"[/?&=;]", f"{parts.path}?{parts.query}") if len(part) >= LEAST_HIDDEN}
    found |= {unquote(part) for part in found}
    return sorted((part for part in found if len(part) > 1), key=len, reverse=True)


def _without(text: str, hidden: Sequence[str]) -> str:
    for secret in hidden:
        text = text.replace(secret, HIDDEN)
    return text
