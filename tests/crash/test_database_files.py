"""What people do to the files of a database under a real server: delete them, damage them, lose the log."""

import json
import os
from pathlib import Path

import pytest

from tests.helpers.server import JOBS, Server, interlock

AT = ("--db", "interlock.db")


def submit(folder: Path, *more: str) -> "tuple[int, str, str]":
    ended = interlock(folder, "submit", "echo", "-p", "value=1", *more, *AT)
    return ended.returncode, ended.stdout, ended.stderr


@pytest.mark.behaviour("RUN-17")
def test_a_database_deleted_under_a_server(folder: Path) -> None:
    with Server(folder, "--http", "local", "--workers", "1") as server:
        code, said, _ = submit(folder, "--wait")
        assert code == 0, said
        for end in ("", "-wal", "-shm", ".lock"):
            os.unlink(f"{server.database}{end}")
        for _ in range(2):
            code, said, error = submit(folder, "--wait")
            assert (code, said) == (1, "")
            assert error.endswith("[database_gone]\n")
            assert "interlock.db was deleted, moved or replaced" in error
        second = interlock(folder, "up", "-A", JOBS, "--http", "off", *AT, "--socket", "other.sock")
        assert second.returncode == 1
        assert second.stderr.endswith("[store_in_use]\n")
        assert f"process {server.pid}, whose lock file was deleted" in second.stderr
        assert not server.database.exists()
        looked = json.loads(interlock(folder, "doctor", "--json", "--http", "local", *AT).stdout)
        assert f"the lock file of process {server.pid} was deleted" in json.dumps(looked)
    assert "interlock.db was deleted, moved or replaced" in server.said


@pytest.mark.behaviour("RUN-17")
def test_a_log_removed_after_a_kill(folder: Path) -> None:
    server = Server(folder, "--http", "local", "--workers", "0")
    server.start()
    assert submit(folder)[0] == 0
    server.kill()
    Path(f"{server.database}-wal").unlink()
    ended = interlock(folder, "up", "-A", JOBS, "--http", "off", *AT)
    assert ended.stderr.endswith("[database_behind]\n"), ended.stderr
    looked = json.loads(interlock(folder, "doctor", "--json", "--http", "local", *AT).stdout)
    assert "interlock.db-wal was cut or removed" in json.dumps(looked)
    os.unlink(f"{server.database}.lock")
    with server:
        assert submit(folder)[0] == 0
