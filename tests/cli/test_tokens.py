"""The command line where tokens are needed: what each may do, and that no secret is shown."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.places import NOBODY, clean_folder
from tests.helpers.server import JOBS, Command, Server, interlock

VIEWER, OPERATOR = "viewer-0123456789abcdef", "operator-0123456789abcdef"
SETTINGS = f"""\
app: {JOBS}
http: 127.0.0.1:0
workers: 1
tokens:
  - {{name: looker, role: viewer, token: {VIEWER}}}
  - {{name: doer, role: operator, tenant: "*", env: THE_TOKEN}}
"""


@pytest.fixture(scope="module")
def guarded() -> Iterator[Server]:
    """Started as the settings file says, with no option at all."""
    with clean_folder() as place:
        (place / "interlock.yaml").write_text(SETTINGS)
        server = Server(place, "--http", "127.0.0.1:0")
        server.arguments = ("interlock.cli", "up")
        server.extra = {"THE_TOKEN": OPERATOR}
        server.start()
        yield server
        assert server.stop() == 0


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Path]:
    """A folder from which the server is reached only over TCP."""
    with clean_folder() as place:
        yield place


@pytest.mark.parametrize("token", [None, "wrong-0123456789abcdef"])
def test_no_token_or_a_wrong_one(guarded: Server, elsewhere: Path, token: str | None) -> None:
    extra = {} if token is None else {"INTERLOCK_TOKEN": token}
    for command in (["runs"], ["submit", "echo"], ["show", "x"], ["cancel", "x"]):
        ended = interlock(elsewhere, *command, "--url", guarded.url, **extra)
        assert ended.stderr.endswith(" [unauthorized]\n")
        assert (ended.stderr.count("\n"), ended.stdout, ended.returncode) == (1, "", 6)
        assert token is None or token not in ended.stderr


def test_doctor_tries_the_token(guarded: Server, elsewhere: Path) -> None:
    for token, level in ((None, "failed"), ("wrong-0123456789abcdef", "failed"), (VIEWER, "ok")):
        extra = {} if token is None else {"INTERLOCK_TOKEN": token}
        ended = interlock(elsewhere, "doctor", "--http", "local", "--url", guarded.url, **extra)
        checks = {name: found for found, name, *_ in (line.split("\t") for line in ended.stdout.splitlines())}
        assert (checks["token"], ended.returncode) == (level, 0 if level == "ok" else 1)
        assert checks["server: store"] == "ok"


def test_a_role_that_may(guarded: Server, elsewhere: Path) -> None:
    arguments = ("submit", "echo", "-p", "value=1", "--wait", "--url", guarded.url)
    assert interlock(elsewhere, *arguments, INTERLOCK_TOKEN=OPERATOR).stdout == "1\n"


def test_the_owner_needs_none_on_the_socket(guarded: Server) -> None:
    assert interlock(guarded.folder, "submit", "echo", "-p", "value=2", "--wait").stdout == "2\n"


def test_a_token_whose_variable_is_missing_stops_the_start(guarded: Server, elsewhere: Path) -> None:
    (elsewhere / "interlock.yaml").write_text(SETTINGS)
    command = Command(elsewhere, "interlock.cli", "up", name="without")
    command.begin()
    assert command.ended() == 2
    (elsewhere / "interlock.yaml").unlink()
    assert command.said.startswith("error: tokens: doer: env: 'THE_TOKEN' is not ")


def test_tokens_that_others_can_read_are_warned_of(guarded: Server) -> None:
    assert "warning interlock.yaml has tokens, and others may read it (mode 644); chmod 600 " in guarded.said
    assert VIEWER not in guarded.said


@pytest.mark.behaviour("SEC-4")
@pytest.mark.parametrize(
    ("mode", "owner", "group", "refusal"),
    [
        (0o602, 0, 0, "can be changed by other users (mode 602)"),
        (0o620, 0, NOBODY, "can be changed by other users (mode 620)"),
        (0o600, NOBODY, 0, f"belongs to another user (uid {NOBODY})"),
        (0o660, 0, 0, None),
    ],
)
def test_settings_that_somebody_else_decides_on_are_refused(
    folder: Path, mode: int, owner: int, group: int, refusal: str | None
) -> None:
    """Whoever can write the file decides who may come in, and which code runs. A group of one is nobody else."""
    if os.geteuid() != 0 and mode != 0o602:
        pytest.skip("only root can give a file away, or to a group that is known to have no other members")
    file = folder / "interlock.yaml"
    file.write_text(f"http: local\ntokens:\n- {{name: ci, role: viewer, token: {VIEWER}}}\n")
    if os.geteuid() == 0:
        os.chown(file, owner, group)
    os.chmod(file, mode)
    # Its app does not exist, which is noticed after the file.
    ended = interlock(folder, "up", "-A", "nowhere:app")
    assert ended.returncode == 2
    assert (f"interlock.yaml {refusal}" in ended.stderr) == (refusal is not None)
    assert ended.stderr.endswith(" [bad_config]\n" if refusal else " [cannot_import]\n")


def test_whoami_says_what_a_token_may_do_and_why_not(guarded: Server, elsewhere: Path) -> None:
    ended = interlock(elsewhere, "whoami", "--url", guarded.url, INTERLOCK_TOKEN=VIEWER)
    rights = [line.split("\t") for line in ended.stdout.splitlines()]
    assert rights[0] == ["read", "yes", ""]
    assert ["cancel", "no", "role: 'viewer' may not cancel"] in rights
    assert [name for name, allowed, _ in rights if allowed == "yes"] == ["read"]
    found = json.loads(interlock(elsewhere, "whoami", "--json", "--url", guarded.url, INTERLOCK_TOKEN=OPERATOR).stdout)
    assert (found["name"], found["role"], found["tenant"]) == ("doer", "operator", "*")
    assert {one["permission"] for one in found["rights"] if not one["allowed"]} == {"approve", "read the audit"}
