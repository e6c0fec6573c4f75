"""`interlock worker-token`."""

import secrets
import shlex
import socket
import ssl
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any

from interlock.buses.tls import fingerprint_of
from interlock.cli.draw.tables import json_text, out, print_json
from interlock.cli.shared.options import Flags, JsonOption, argument, option, takes
from interlock.cli.shared.output import check_choice
from interlock.config import Settings
from interlock.config.settings import Address
from interlock.config.tokens import Tokens
from interlock.error import BadUse, shown
from interlock.error_lines import say
from interlock.fields.field_types import WORD, FieldPath, Text
from interlock.model.access import EVERY_TENANT, LINK_ROLES, Role, digest_of
from interlock.wiring.certificate import have_certificate
from interlock.wiring.node_links import GATEWAY_TOKEN, WORKER_TOKEN

LISTEN = "0.0.0.0:8421"  # suggested
HOST = Text(r"[A-Za-z0-9.:_*-]{1,253}", "a host name or an address")


@takes("app", "database", "listen_workers", "worker_cert", "worker_key")
def command(
    flags: Flags,
    name: Annotated[str, argument("NAME", "Name of the new token.")],
    pool: Annotated[list[str] | None, option("NAME", "Pool that its workers may join; default all.")] = None,
    tenant: Annotated[str | None, option("NAME", "Tenant whose runs they get; '*' for all.")] = None,
    role: Annotated[str, option("ROLE", "Role of the token: worker, or gateway for nodes of a cluster.")] = Role.WORKER,
    host: Annotated[list[str] | None, option("HOST", "Name or address of this machine for a new certificate.")] = None,
    json: JsonOption = False,
) -> None:
    """Make a token for workers or gateways on other machines, and a certificate for the scheduler unless it has one.

    The token is shown only now. It is valid once its entry is in interlock.yaml and the scheduler has restarted."""
    settings = flags.resolve().settings
    if name in (one.name for one in settings.tokens):
        raise BadUse("NAME", f"{shown(name)} is the name of another token in interlock.yaml; choose another name")
    check_choice("--role", role, LINK_ROLES)
    is_gateway = role == Role.GATEWAY
    if is_gateway and (pool or tenant):
        raise BadUse("--pool" if pool else "--tenant", "cannot be combined with --role gateway, which serves all")
    entry: dict[str, Any] = {"name": Tokens.FIELDS["name"].check(name, FieldPath("NAME")), "role": role}
    whose = tenant or (EVERY_TENANT if is_gateway else "default")
    entry["tenant"] = Tokens.FIELDS["tenant"].check(whose, FieldPath("--tenant"))
    pools = [WORD.check(one, FieldPath("--pool")) for one in pool or []]
    hosts = [HOST.check(one, FieldPath("--host")) for one in host or []]
    certificate, key = (Path(one) for one in settings.worker_files())
    made = have_certificate(certificate, key, _hosts(settings, hosts))
    if hosts and not made:
        say(f"{certificate} exists and is unchanged; for other hosts, remove it and {key} first")
    token = secrets.token_urlsafe(32)
    entry["sha256"] = digest_of(token).hex()
    fingerprint = fingerprint_of(ssl.PEM_cert_to_DER_cert(certificate.read_text()))
    command = _command(settings, hosts, pools, fingerprint, is_gateway)
    if pools:
        entry["pools"] = pools
    if json:
        print_json({"token": token, "entry": entry, "fingerprint": fingerprint, "command": command})
        return
    # JSON is YAML, and no name in it is taken for a number or a truth value.
    fields = ", ".join(f"{field}: {json_text(one)}" for field, one in entry.items())
    out(f"# {certificate} {'was made' if made else 'is unchanged'}. Add to interlock.yaml:")
    out(f"tokens:\n- {{{fields}}}")
    if settings.listen_workers is None:
        out(f"listen_workers: {LISTEN}")
    out("\n# Then restart the scheduler. On the other machine:")
    out(f"export {GATEWAY_TOKEN if is_gateway else WORKER_TOKEN}={token}\n{command}")


def _hosts(settings: Settings, given: list[str]) -> list[str]:
    """Return the names for the certificate; the first is the one to connect to."""
    listen, _ = Address.checked(settings.listen_workers or LISTEN)
    return list(dict.fromkeys([*given, *([] if _is_any(listen) else [listen]), socket.gethostname(), "localhost"]))


def _is_any(host: str) -> bool:
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False


def _command(settings: Settings, given: list[str], pools: list[str], fingerprint: str, is_gateway: bool) -> str:
    host, port = _hosts(settings, given)[0], (settings.listen_workers or LISTEN).rpartition(":")[2]
    app = ["-A", settings.app or "module:app"]
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    place = [*(("--pool", pools[0]) if pools else ()), "--node", address, "--fingerprint", fingerprint]
    program = ["up", "--role", "gateway", "--db", "postgresql://…"] if is_gateway else ["worker", *app]
    return shlex.join(["interlock", *program, *place])
