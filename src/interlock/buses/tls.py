"""Links over TLS, for workers on other machines.

    worker ── handshake; verifies the certificate ──►  listener: a stranger, with 10 s and one frame of 64 KiB
           ── Credential(token) ───────────────────►  known by its token, or the connection ends without a word
           ◄─────────────────────────────── Seen ──  a link: Peer.caller has tenant and pools
           ── Hello, … ────────────────────────────►  Links, as for any worker; nothing but a worker is accepted

The listener accepts connections itself, so each stranger is one task with one time limit, handshake included. The
hundred-and-first stranger ends the oldest, so idle strangers keep nobody out. The connecting side shows its token only
after it has verified the certificate.

The scheduler puts the token's name before the worker's id (`rack:worker-…`). So the ids of two tokens never meet, over
restarts too, and no such id is taken for a process of this machine: only silence tells that a worker elsewhere is gone.
`TlsBus.connect` raises for a wrong certificate or token until the scheduler has accepted the worker once. After that,
such a refusal is like a scheduler that is away, and the host tries again.
"""

import asyncio
import hashlib
import hmac
import logging
import socket
import ssl
from collections.abc import Sequence
from typing import NoReturn, cast

from interlock.buses.listener import bind_tcp
from interlock.buses.stream import StreamPeer
from interlock.error import NotRunning, Refused, TokenRefused, WrongCertificate
from interlock.model.access import Caller, Grant, caller_of
from interlock.ports.bus import Bus, Endpoint, Peer
from interlock.task_set import TaskSet
from interlock.wire.frames import LARGEST
from interlock.wire.message import Credential, Message, Seen

logger = logging.getLogger("interlock.links")

FIRST = 64 * 1024  # bytes of a stranger's only frame
PATIENCE = 10.0  # seconds a stranger has for its handshake and token
STRANGERS = 100  # at once; one more ends the oldest
CLOSING = 2.0  # seconds for the last bytes of a link that is being closed
REMEDY = "start one there with: interlock up --listen-workers"
AFTER_FAULT = 0.5  # seconds of rest if a connection cannot be accepted


def server_context(certificate: str, key: str) -> ssl.SSLContext:
    """Raise OSError if the files are missing, unreadable or do not belong together."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0
    # A key with a passphrase would ask for it on the terminal.
    context.load_cert_chain(certificate, key, _no_passphrase)
    return context


def _no_passphrase() -> NoReturn:
    raise OSError("the key has a passphrase")


def client_context(ca: str | None = None, pinned: bool = False) -> ssl.SSLContext:
    """Verify with the file `ca`, else with the system's CAs. A pinned certificate needs no CA and no host name. Raise
    OSError for a file that cannot be used."""
    context = ssl.create_default_context(cafile=ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if pinned:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def fingerprint_of(certificate: bytes) -> str:
    """Return the fingerprint of a certificate in DER form."""
    return f"sha256:{hashlib.sha256(certificate).hexdigest()}"


class _TlsPeer(StreamPeer):
    """A connection that becomes a link when it is opened."""

    def __init__(self, peers: set[StreamPeer], endpoint: Endpoint) -> None:
        super().__init__(peers, endpoint)
        self.reader.largest = FIRST
        self.first: asyncio.Future[Sequence[Message]] = self._loop.create_future()  # empty if none will come
        self.fault = "it closed the connection"
        self.is_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def open(self) -> None:
        """Begin the link. Raise if the connection is gone, or said more than its first message."""
        if self._transport is None or not self.first.result():
            raise Refused(self.fault)
        self.is_open = True
        self.reader.largest = LARGEST
        super().connection_made(self._transport)

    def data_received(self, data: bytes) -> None:
        if self.is_open:
            super().data_received(data)
            return
        try:
            for messages in self.reader.feed(data):
                if self.first.done():
                    raise Refused("link: a second message before the answer to the first")
                self.first.set_result(messages)
        except Refused as error:
            self.fault = str(error)
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.is_open:
            super().connection_lost(exc)
        self._transport = None
        if not self.first.done():
            self.first.set_result(())

    def certificate(self) -> bytes:
        assert self._transport is not None
        return cast(bytes, self._transport.get_extra_info("ssl_object").getpeercert(True))

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
            self._transport = None
        if not self.first.done():
            self.first.set_result(())


class TlsBus(Bus):
    def __init__(
        self,
        address: tuple[str, int],
        context: ssl.SSLContext,
        *,
        grants: Sequence[Grant] = (),
        token: str = "",
        fingerprint: str = "",
    ) -> None:
        """`grants` are the workers that a listener knows. `token` and the pinned `fingerprint` are for connecting."""
        self.address = address
        self.peers: set[StreamPeer] = set()
        self._context = context
        self._grants = grants
        self._token = token
        self._fingerprint = fingerprint
        self._listener: socket.socket | None = None
        self._tasks = TaskSet()
        self._strangers: dict[asyncio.Task[None], str] = {}  # with their addresses, oldest first
        self._warned = float("-inf")
        self._was_accepted = False

    def __str__(self) -> str:
        host, port = self.address
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def listen(self, endpoint: Endpoint) -> None:
        self._listener = bind_tcp(*self.address, setting="listen_workers")
        self.address = self._listener.getsockname()[:2]
        self._tasks.begin(self._accept(self._listener, endpoint))

    async def _accept(self, listener: socket.socket, endpoint: Endpoint) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(listener)
            except OSError as error:
                self._warn("a worker", error)
                await asyncio.sleep(AFTER_FAULT)
                continue
            # Ending the oldest, not refusing the newest: idle strangers cannot keep workers out.
            if len(self._strangers) >= STRANGERS:
                oldest = next(iter(self._strangers))
                self._warn(self._strangers.pop(oldest), f"{STRANGERS} others came before it had shown a token")
                oldest.cancel()
            stranger = self._tasks.begin(self._admit(connection, str(address[0]), endpoint))
            self._strangers[stranger] = str(address[0])
            stranger.add_done_callback(lambda task: self._strangers.pop(task, None))

    async def _admit(self, connection: socket.socket, address: str, endpoint: Endpoint) -> None:
        """Make a link of a connection that shows a token, and end every other."""
        loop = asyncio.get_running_loop()
        peer = _TlsPeer(self.peers, endpoint)
        try:
            async with asyncio.timeout(PATIENCE):
                await loop.connect_accepted_socket(
                    lambda: peer,
                    connection,
                    ssl=self._context,
                    ssl_handshake_timeout=PATIENCE,
                    ssl_shutdown_timeout=CLOSING,
                )
                first = await peer.first
            peer.caller = self._caller_of(first, peer.fault)
            peer.identity = f"token {peer.caller.name}"
            peer.open()
            peer.send([Seen()])
        except TimeoutError:
            self._warn(address, f"it showed no token within {PATIENCE:g}s")
        except (OSError, Refused) as error:
            self._warn(address, error)
        finally:
            if not peer.is_open:
                peer.abort()

    def _caller_of(self, first: Sequence[Message], fault: str) -> Caller:
        if not first:
            raise Refused(fault)
        if len(first) != 1 or not isinstance(first[0], Credential):
            raise Refused("its first message is not a token")
        caller = caller_of(first[0].token, self._grants)
        if caller is None:
            raise Refused("its token is not that of a worker")
        return caller

    def _warn(self, address: str, why: object) -> None:
        """Log at most one refusal a second: anybody can cause them."""
        now = asyncio.get_running_loop().time()
        if now - self._warned >= 1.0:
            self._warned = now
            logger.warning(
                "a connection from %s to the address for workers was refused: %s", address, str(why) or "it ended"
            )

    async def connect(self, endpoint: Endpoint) -> Peer:
        """Also raise `WrongCertificate` and `TokenRefused`, until the listener has accepted this worker once."""
        try:
            peer = await self._connect(endpoint)
        except (WrongCertificate, TokenRefused) as error:
            if not self._was_accepted:
                raise
            logger.warning("%s", error)
            raise NotRunning(str(self)) from error
        self._was_accepted = True
        return peer

    async def _connect(self, endpoint: Endpoint) -> Peer:
        peer = _TlsPeer(self.peers, endpoint)
        try:
            async with asyncio.timeout(PATIENCE):
                await asyncio.get_running_loop().create_connection(
                    lambda: peer,
                    *self.address,
                    ssl=self._context,
                    server_hostname=self.address[0],
                    ssl_handshake_timeout=PATIENCE,
                    ssl_shutdown_timeout=CLOSING,
                )
                self._check_pin(peer)
                peer.send([Credential(self._token)])
                if not isinstance(next(iter(await peer.first), None), Seen):
                    raise TokenRefused(str(self))
            peer.open()
        except ssl.SSLCertVerificationError as error:
            raise WrongCertificate(str(self), error.verify_message) from error
        except (OSError, Refused) as error:  # timeouts included
            raise NotRunning(str(self), REMEDY, _why(error)) from error
        finally:
            if not peer.is_open:
                peer.abort()
        return peer

    def _check_pin(self, peer: _TlsPeer) -> None:
        if self._fingerprint:
            found = fingerprint_of(peer.certificate())
            if not hmac.compare_digest(found, self._fingerprint):
                raise WrongCertificate(str(self), f"its fingerprint is {found}, not {self._fingerprint}")

    async def close(self) -> None:
        self._tasks.cancel()
        await self._tasks.end()
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for peer in list(self.peers):
            peer.close()
        # One turn of the loop lets the transports finish closing.
        await asyncio.sleep(0)


def _why(error: OSError | Refused) -> str:
    if isinstance(error, ssl.SSLError):
        return "it does not speak TLS as a scheduler does; is it another program?"
    return (isinstance(error, OSError) and error.strerror) or str(error) or "no answer"
