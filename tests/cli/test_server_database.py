"""Commands with a database on a server: none shows its password, and those that need a file say so."""

from pathlib import Path

import pytest

from tests.helpers.server import interlock

URL = "postgresql://ann:s3cret@127.0.0.1:1/runs"
SHOWN = "postgresql://ann@127.0.0.1:1/runs"


@pytest.mark.parametrize("command", [["backup", "x"], ["restore", "x"], ["vacuum"], ["doctor", "--repair-copy", "x"]])
def test_what_needs_a_file_refuses_a_server(tmp_path: Path, command: list[str]) -> None:
    ended = interlock(tmp_path, *command, "--db", URL)
    assert ended.returncode != 0
    assert f"database: {SHOWN} is no file; use the means of the server, such as pg_dump" in ended.stdout + ended.stderr
    assert "s3cret" not in ended.stdout + ended.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [["config"], ["runs"], ["doctor"]])
def test_no_command_shows_the_password(tmp_path: Path, command: list[str]) -> None:
    ended = interlock(tmp_path, *command, "--db", URL)
    assert "s3cret" not in ended.stdout + ended.stderr
    if command[0] in ("config", "runs"):
        assert SHOWN in ended.stdout + ended.stderr
