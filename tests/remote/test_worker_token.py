"""`interlock worker-token`: the token, its entry in interlock.yaml, and the certificate."""

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from interlock.buses.tls import server_context
from interlock.config import Settings, Token, resolve
from interlock.error import TokensNeeded
from interlock.model.access import PERMISSIONS, Role, caller_of
from interlock.stores.memory import MemoryStore
from interlock.wiring.gateway_sockets import Front
from tests.helpers.server import interlock


def test_what_it_prints_is_what_both_sides_need(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = interlock(
        folder, "worker-token", "404", "--pool", "gpu", "--pool", "yes", "--tenant", "acme", "--host", "h.example"
    )
    assert (done.returncode, done.stderr) == (0, "")
    settings, _, commands = done.stdout.partition("\n\n")
    (folder / "interlock.yaml").write_text(settings)
    monkeypatch.chdir(folder)
    found = resolve().settings
    assert found.listen_workers == "0.0.0.0:8421"
    export, command = commands.splitlines()[1:]
    token = export.removeprefix("export INTERLOCK_WORKER_TOKEN=")
    caller = caller_of(token, [one.grant() for one in found.tokens])
    assert caller is not None
    assert (caller.name, caller.role, caller.tenant, caller.pools) == ("404", "worker", "acme", ("gpu", "yes"))
    assert command.startswith("interlock worker -A module:app --pool gpu --node h.example:8421 --fingerprint sha256:")
    assert token not in settings
    again = interlock(folder, "worker-token", "404")
    assert again.stderr.startswith("error: NAME: '404' is the name of another token")


def test_the_certificate_is_made_once_and_its_key_is_private(folder: Path) -> None:
    made = interlock(folder, "worker-token", "one", "--host", "10.1.2.3", "--json")
    files = [folder / "interlock.db.worker.crt", folder / "interlock.db.worker.key"]
    before = [path.read_bytes() for path in files]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in files)
    again = interlock(folder, "worker-token", "two", "--host", "new.example", "--json")
    assert "exists and is unchanged" in again.stderr
    assert [path.read_bytes() for path in files] == before
    first, second = json.loads(made.stdout), json.loads(again.stdout)
    assert first["fingerprint"] == second["fingerprint"]
    assert first["token"] != second["token"]
    server_context(*map(str, files))
    shown = subprocess.run(
        ["openssl", "x509", "-noout", "-ext", "subjectAltName", "-checkend", str(824 * 86400), "-in", str(files[0])],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "IP Address:10.1.2.3" in shown
    assert "DNS:localhost" in shown
    assert sorted(os.listdir(folder)) == ["interlock.db.worker.crt", "interlock.db.worker.key"]
    files[1].unlink()
    assert "exists, but the other file does not" in interlock(folder, "worker-token", "three").stderr


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["a b"], "NAME: 'a b' is not a name of letters"),
        (["a", "--pool", "g p u"], "--pool: 'g p u' is not a name"),
        (["a", "--tenant", "a/b"], "--tenant: 'a/b' is not a tenant's name"),
        (["a", "--host", "x,DNS:evil.example"], "--host: 'x,DNS:evil.example' is not a host name"),
        (["a", "--worker-cert", "no/such/folder.crt"], "no certificate was made"),
    ],
)
def test_bad_input(folder: Path, arguments: list[str], why: str) -> None:
    done = interlock(folder, "worker-token", *arguments)
    assert (done.returncode != 0, done.stdout, why in done.stderr) == (True, "", True), done.stderr
    assert [path.name for path in folder.iterdir()] == []


def test_without_openssl(folder: Path) -> None:
    done = interlock(folder, "worker-token", "a", PATH="/nowhere")
    assert done.stderr == "error: openssl: not found; install it, or give a certificate as worker_cert [internal]\n"
    assert list(folder.iterdir()) == []


def test_a_token_of_a_worker_opens_nothing_over_http(folder: Path) -> None:
    """With one of these alone, the owner is served without a token, as if there were none."""
    settings = Settings(
        database=str(folder / "x.db"),
        http="0.0.0.0:0",
        tokens=[Token(name="w", role=Role.WORKER, token="worker-0123456789abcdef")],
    )
    with pytest.raises(TokensNeeded):
        Front(settings, MemoryStore())
    assert PERMISSIONS[Role.WORKER] == frozenset()
