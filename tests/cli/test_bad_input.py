"""Whatever is wrong with a command: one line with a stable code, the right exit code, and nothing changed."""

import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from interlock.stores.sqlite.database import APPLICATION_ID
from tests.helpers.server import JOBS, Server, interlock

WRONG_USE = 2
THE_WORLD = 1
UNKNOWN = 3
NO_SERVER = 4


def contents(folder: Path) -> dict[str, bytes]:
    """Every file but locks, which say nothing once they are let go."""
    files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files if path.suffix != ".lock"}


def refused(
    folder: Path, *arguments: str, exit_code: int, code: str, says: str, traceback: bool = False, **extra: str
) -> None:
    before = contents(folder)
    ended = interlock(folder, *arguments, **extra)
    assert (ended.stderr.count("\n") == 1) != traceback, ended.stderr
    assert ended.stderr.splitlines()[-1].startswith("error: ")
    assert ended.stderr.endswith(f" [{code}]\n")
    assert says in ended.stderr
    assert ended.returncode == exit_code
    assert ended.stdout == ""
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("nowhere:app", "No module named 'nowhere'"),
        ("tests.nowhere:app", "No module named 'tests.nowhere'"),
        ("raises:app", "ZeroDivisionError: division by zero"),
        ("exits:app", "SystemExit: 3"),
        ("wrong:app", "SyntaxError"),
        ("many:app", "several lines of text"),
        ("doubled:app", "'one' is defined twice"),
        ("plain:nothing", "plain has no 'nothing'"),
        ("plain", "plain has no 'app'"),
        ("plain:number", "number is a int, not an interlock App"),
        ("plain:App", "not an interlock App"),
        ("missing.py:app", "missing.py"),
        (":app", "expected module:variable"),
    ],
)
@pytest.mark.parametrize("command", ["up", "worker"])
def test_an_app_that_cannot_be_loaded(folder: Path, command: str, target: str, says: str) -> None:
    (folder / "raises.py").write_text("1 / 0\n")
    (folder / "exits.py").write_text("raise SystemExit(3)\n")
    (folder / "wrong.py").write_text("def (\n")
    (folder / "many.py").write_text("raise RuntimeError('several\\nlines\\nof text')\n")
    (folder / "doubled.py").write_text(
        "import interlock as il\napp = il.App()\n"
        "@app.job('one')\ndef first(): ...\n@app.job('one')\ndef second(): ...\n"
    )
    (folder / "plain.py").write_text("from interlock import App\nnumber = 5\n")
    if command == "up":
        shown = target.partition(":")[0] in ("raises", "exits", "wrong", "many", "doubled")
        refused(folder, "up", "-A", target, exit_code=WRONG_USE, code="cannot_import", says=says, traceback=shown)
    else:
        # A worker asks its executor to load the app, and needs a scheduler first.
        refused(folder, "worker", "-A", target, exit_code=NO_SERVER, code="not_running", says="interlock up")


def test_the_traceback_of_a_module_has_the_users_frames_alone(folder: Path) -> None:
    (folder / "helper.py").write_text("def read():\n    return {}['\\x1b[2J']\n")
    (folder / "app.py").write_text("import helper\ntry:\n    helper.read()\nexcept KeyError:\n    1 / 0\n")
    said = interlock(folder, "up", "-A", "app:app").stderr
    frames = [line.split('"')[1] for line in said.splitlines() if line.startswith('  File "')]
    assert frames == [str(folder / name) for name in ("app.py", "helper.py", "app.py")]
    assert "During handling of the above exception" in said
    assert "\x1b" not in said
    in_json = interlock(folder, "check", "-A", "app:app", "--json")
    assert (in_json.stderr.count("\n"), in_json.returncode) == (1, WRONG_USE)


def test_a_worker_whose_app_cannot_be_loaded(folder: Path) -> None:
    with Server(folder) as server:
        ended = interlock(folder, "worker", "-A", "nowhere:app", "--socket", str(server.socket))
    why = "ModuleNotFoundError: No module named 'nowhere'"
    assert ended.stderr == f"error: app: cannot load 'nowhere:app': {why} [cannot_import]\n"
    assert ended.returncode == WRONG_USE


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--lane", "main"], "bad_value", "--lane: 'main' is not of the form NAME=LIMIT"),
        (["--lane", "main=0"], "bad_value", "--lane main: '0'"),
        (["--lane", "main=-1"], "bad_value", "--lane main: '-1'"),
        (["--lane", "main=1.5"], "bad_value", "--lane main: '1.5'"),
        (["--lane", "main=many"], "bad_value", "--lane main: 'many'"),
        (["--lane", "=3"], "bad_value", "--lane: ''"),
        (["--lane", "a b=3"], "bad_value", "--lane: 'a b'"),
        (["--heartbeat", "soon"], "bad_duration", "--heartbeat: 'soon'"),
        (["--heartbeat", "10"], "bad_duration", "--heartbeat: '10'"),
        (["--heartbeat", "0s"], "bad_value", "--heartbeat: '0s' is not a duration from 1ms to 1d"),
        (["--drain", "5 seconds"], "bad_duration", "--drain: '5 seconds'"),
        (["--drain=-1s"], "bad_duration", "--drain: '-1s'"),
        (["--workers=-1"], "bad_value", "--workers: '-1' is not a whole number from 0 to 1,000"),
        (["--slots", "0"], "bad_value", "--slots: '0'"),
        (["--processes=-2"], "bad_value", "--processes: '-2'"),
        (["--memory-limit=-2"], "bad_value", "--memory-limit: '-2'"),
        (["--submit", "add"], "bad_payload", "'left' is missing"),
        (["--log-level", "loud"], "bad_value", "--log-level: 'loud'"),
        (["--log-format", "xml"], "bad_value", "--log-format: 'xml'"),
    ],
)
def test_options_that_make_no_sense(folder: Path, options: list[str], code: str, says: str) -> None:
    refused(folder, "up", "-A", JOBS, *options, exit_code=WRONG_USE, code=code, says=says)


@pytest.mark.behaviour("ROU-1", "ROU-2")
@pytest.mark.parametrize(
    ("pool", "says"),
    [
        ("gpuu", "pool: 'gpuu' is not declared; use one of gpu; did you mean 'gpu'?"),
        ("gpu", "capabilities: pool 'gpu' requires cuda; announce it with --capability"),
    ],
)
def test_a_pool_that_its_own_workers_may_not_join(folder: Path, pool: str, says: str) -> None:
    (folder / "pools.yaml").write_text("kind: Pool\nid: gpu\ntopics: ['*']\noffers: [cuda]\nrequires: [cuda]\n")
    arguments = ("up", "-A", JOBS, "pools.yaml", "--pool", pool)
    refused(folder, *arguments, exit_code=WRONG_USE, code="bad_value", says=says)


def test_a_job_to_submit_that_is_none(folder: Path) -> None:
    refused(folder, "up", "-A", JOBS, "--submit", "ecko", exit_code=UNKNOWN, code="unknown_job", says="'ecko'")


@pytest.mark.behaviour("LAN-1")
@pytest.mark.parametrize("value", ["zero", "0", "-3", "1.5", "", " 5", "٣"])
def test_a_lane_in_the_environment_must_be_a_positive_whole_number(folder: Path, value: str) -> None:
    says = f"INTERLOCK_LANE_MAIN: {value!r} is not a whole number from 1 to 999,999,999"
    arguments = ("up", "-A", JOBS)
    refused(folder, *arguments, exit_code=WRONG_USE, code="bad_value", says=says, INTERLOCK_LANE_MAIN=value)


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--drain", "x"], "bad_duration", "--drain: 'x'"),
        (["--slots", "0"], "bad_value", "--slots: '0'"),
        (["--slots", "3000000000"], "bad_value", "--slots: '3000000000'"),
        (["--processes", "-1"], "bad_value", "--processes: '-1'"),
        (["--memory-limit", "99999999999999999999"], "bad_value", "--memory-limit: '99999999999999999999'"),
        (["--name", "a b"], "bad_value", "--name: 'a b'"),
        (["--max-parallel", "0"], "bad_value", "--slots: '0' is not a whole number from 1 to 100,000"),
        (["--max-parallel", "1000000000"], "bad_value", "--slots: '1000000000'"),
        (["--pool", "a b"], "bad_value", "--pool: 'a b' is not a name"),
        (["--label", "a b=c"], "bad_value", "--label: 'a b' is not a name"),
        (["--label", "region"], "bad_value", "--label: 'region' is not of the form NAME=TEXT"),
        (["--label", "a=b", "--label", "a=c"], "bad_value", "--label: 'a' given twice; allowed once"),
        (["--capability", "a b"], "bad_value", "--capability[0]: 'a b' is not a name"),
    ],
)
def test_worker_options_that_make_no_sense(folder: Path, options: list[str], code: str, says: str) -> None:
    refused(folder, "worker", "-A", JOBS, *options, exit_code=WRONG_USE, code=code, says=says)


def test_a_worker_with_no_scheduler(folder: Path) -> None:
    says = "no scheduler answers at"
    refused(folder, "worker", "-A", JOBS, exit_code=NO_SERVER, code="not_running", says=says)
    with Server(folder) as server:
        server.kill()
        for pid in server.workers():
            os.kill(pid, signal.SIGKILL)
        # The socket of a scheduler that was killed is still there, and nobody answers.
        assert server.socket.exists()
        refused(
            folder, "worker", "-A", JOBS, "--socket", str(server.socket), exit_code=NO_SERVER, code="not_running",
            says=says,
        )  # fmt: skip
        server.socket.unlink()


def database_of_another_program(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE things (name TEXT)")


def database_from_the_future(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 99;")


@pytest.mark.parametrize(
    ("make", "code", "says"),
    [
        (lambda path: path.write_text("shopping list\n" * 100), "not_a_database", "file is not a database"),
        (database_of_another_program, "not_a_database", "another program"),
        (database_from_the_future, "database_too_new", "schema version 99"),
        (lambda path: path.mkdir(), "cannot_open_database", "it is a directory"),
    ],
)
def test_a_database_that_is_none(folder: Path, make: Callable[[Path], object], code: str, says: str) -> None:
    make(folder / "file.db")
    refused(folder, "up", "-A", JOBS, "--http", "off", "--db", "file.db", exit_code=THE_WORLD, code=code, says=says)


def test_a_database_where_there_is_no_folder(folder: Path) -> None:
    arguments = ("up", "-A", JOBS, "--http", "off", "--db", "nowhere/file.db")
    refused(folder, *arguments, exit_code=THE_WORLD, code="cannot_open_database", says="nowhere/file.db")


def test_a_second_scheduler_on_one_file(folder: Path) -> None:
    with Server(folder) as server:
        arguments = ("up", "-A", JOBS, "--http", "off", "--db", str(server.database), "--socket", "other.sock")
        ended = interlock(folder, *arguments)
        assert ended.stderr.count("\n") == 1
        assert ended.stderr.endswith("[store_in_use]\n")
        assert f"process {server.pid}" in ended.stderr
        assert ended.returncode == THE_WORLD
        assert not (folder / "other.sock").exists()
        assert server.process is not None
        assert server.process.poll() is None


def test_a_socket_that_another_scheduler_has(folder: Path) -> None:
    with Server(folder) as server:
        ended = interlock(folder, "up", "-A", JOBS, "--http", "off", "--db", "other.db", "--socket", str(server.socket))
        assert ended.stderr.count("\n") == 1
        assert ended.stderr.endswith("[socket_in_use]\n")
        assert "another scheduler listens on it" in ended.stderr
        assert ended.returncode == THE_WORLD
        assert server.socket.is_socket()


def test_a_socket_path_that_is_a_file(folder: Path) -> None:
    (folder / "notes").write_text("keep me")
    ended = interlock(folder, "up", "-A", JOBS, "--http", "off", "--socket", "notes")
    assert ended.stderr.endswith("a file that is not a socket); choose another with --socket [socket_in_use]\n")
    assert (ended.stderr.count("\n"), ended.returncode) == (1, THE_WORLD)
    assert (folder / "notes").read_text() == "keep me"


@pytest.mark.parametrize(("path", "says"), [("s" * 108, "at most 107 bytes"), ("nowhere/s", "No such file")])
def test_a_socket_path_that_cannot_be(folder: Path, path: str, says: str) -> None:
    ended = interlock(folder, "up", "-A", JOBS, "--http", "off", "--socket", path)
    assert says in ended.stderr
    assert ended.stderr.endswith("[cannot_listen]\n")
    assert (ended.stderr.count("\n"), ended.returncode) == (1, THE_WORLD)
