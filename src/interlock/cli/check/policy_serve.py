"""`interlock policy serve`."""

import asyncio
import os
import signal
import ssl
from pathlib import Path
from typing import Annotated

from interlock.cli.check.policy_inputs import required
from interlock.cli.draw.format import policy_line
from interlock.cli.shared.options import argument, option, switch
from interlock.cli.shared.output import WrongUsage
from interlock.config.settings import Address
from interlock.config.sources import load
from interlock.error import BadConfig, BadValue, InterlockError
from interlock.error_lines import say, say_failure
from interlock.fields.field_types import FieldPath
from interlock.fields.sockets import is_loopback
from interlock.policy_service import prepare_grpc
from interlock.policy_service.access import INSECURE, Access, host_of
from interlock.runtime import run
from interlock.task_set import TaskSet
from interlock.wiring.file_watch import FileWatch

LISTEN = "127.0.0.1:50051"
Pair = tuple[bytes, bytes]


def command(
    files: Annotated[list[str], argument("FILE", "Files and folders with the policy.")],
    listen: Annotated[str, option("HOST:PORT", "Address to serve on.", "--listen")] = LISTEN,
    tls_cert: Annotated[str | None, option("FILE", "Certificate chain, in PEM.", "--tls-cert")] = None,
    tls_key: Annotated[str | None, option("FILE", "Private key of the certificate, in PEM.", "--tls-key")] = None,
    watch: Annotated[bool, switch("Reload the files whenever they change.", "--watch")] = False,
) -> None:
    """Serve a policy over gRPC to schedulers whose setting `policy_service` names its address.

    SIGHUP reloads the files; if they have a fault, the policy stays as it was. SIGTERM and Ctrl-C end it after the
    calls under way. Without a certificate it serves only this machine, unless SAFETY_KERNEL_INSECURE=true."""
    prepare_grpc("policy serve")
    Address().check(listen, FieldPath("--listen"))
    tls = _pair(tls_key, tls_cert)
    if tls is None and not is_loopback(host_of(listen)) and not Access.of(os.environ).insecure:
        raise BadConfig(
            f"--listen: other machines can reach {listen}, and their connections would not be encrypted; "
            f"give --tls-cert and --tls-key, or set {INSECURE}=true"
        )
    run(_serve(files, listen, tls, watch))


def _pair(key: str | None, certificate: str | None) -> Pair | None:
    if key is None and certificate is None:
        return None
    if key is None or certificate is None:
        raise WrongUsage("--tls-cert, --tls-key: give both or neither")
    pair = _read("--tls-key", key), _read("--tls-cert", certificate)
    try:
        # A key with a password would make this ask for it.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except ssl.SSLError as error:
        why = error.reason or "no PEM"
        raise BadConfig(f"--tls-cert, --tls-key: not a certificate and its private key ({why})") from None
    return pair


def _read(flag: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise BadValue(flag, path, f"a file that can be read ({error.strerror})") from None


async def _serve(files: list[str], listen: str, tls: Pair | None, watch: bool) -> None:
    # gRPC is loaded only where it is used: it takes long.
    from interlock.policy_service.server import PolicyServer

    loop, stopped, tasks = asyncio.get_running_loop(), asyncio.Event(), TaskSet()
    reloading = asyncio.Lock()

    async def reload() -> None:
        async with reloading:
            try:
                server.policy = required(await asyncio.to_thread(load, files), files)
            except InterlockError as error:
                say_failure(error)
                say("the policy stays as it was")
            else:
                say(f"reloaded {policy_line(server.policy)}")

    watching = FileWatch(files, reload) if watch else None
    server = PolicyServer(required(load(files), files))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    loop.add_signal_handler(signal.SIGHUP, lambda: tasks.begin(reload()))
    port = await server.start(listen, tls)
    where = f"{listen.rpartition(':')[0]}:{port}"
    say(f"{policy_line(server.policy)}; serving on {where} {'with TLS' if tls else 'without encryption'}")
    if watching is not None:
        tasks.begin(watching.run())
    await stopped.wait()
    tasks.cancel()
    await server.stop()
    say("stopped")
