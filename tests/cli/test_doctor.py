"""`interlock doctor`: what it finds, what it says to do, and that looking changes nothing."""

import json
import os
import re
import socket
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from interlock.cli.check import doctor_checks
from interlock.stores.sqlite import SqliteStore
from tests.cli.conftest import serving
from tests.cli.terminal import Terminal, in_a_terminal
from tests.config.writing import without_rule
from tests.contract.conftest import AnyStore, run_with
from tests.contract.samples import JOB, created, make_run, take
from tests.helpers.server import JOBS, Server, interlock

SECRET = "a-secret-of-some-length"


def found(folder: Path, *options: str, **extra: str) -> dict[str, dict[str, Any]]:
    """The checks by name; the exit code must say whether one failed."""
    ended = interlock(folder, "doctor", "--json", *options, **extra)
    assert ended.stderr == ""
    answer = json.loads(ended.stdout)
    failed = any(one["level"] == "failed" for one in answer["checks"])
    assert (answer["ok"], ended.returncode) == (not failed, 1 if failed else 0)
    assert all(one["fix"] for one in answer["checks"] if one["level"] != "ok")
    return {one["name"]: one for one in answer["checks"]}


def levels(findings: dict[str, dict[str, Any]], but: str) -> set[str]:
    return {one["level"] for name, one in findings.items() if name != but}


def test_all_is_well_before_the_first_start(folder: Path) -> None:
    findings = found(folder, "--http", "127.0.0.1:0", "-A", JOBS)
    assert [one for one in findings.values() if one["level"] != "ok"] == []
    assert "interlock.db" in findings["database"]["detail"]
    assert "interlock up" in findings["server"]["detail"]
    assert findings["app"]["detail"].startswith(f"{JOBS} has ")
    assert list(folder.iterdir()) == []


def test_an_app_that_prints_does_not_spoil_the_json(folder: Path) -> None:
    (folder / "loud.py").write_text("import interlock as il\nprint('hello')\napp = il.App()\n")
    ended = interlock(folder, "doctor", "--json", "--http", "local", "-A", "loud:app")
    assert json.loads(ended.stdout)["ok"]
    assert ended.stderr == "hello\n"


def test_all_is_well_while_a_server_runs(server: Server) -> None:
    findings = found(server.folder, "--http", "local")
    assert [one for one in findings.values() if one["level"] != "ok"] == []
    assert findings["lock"]["detail"] == f"held by process {server.pid}"
    assert findings["socket"]["detail"] == f"{server.socket} answers"
    assert findings["http socket"]["detail"] == f"{server.http_socket} answers"
    assert "server: store" in findings
    assert "server: scheduler" in findings


def test_a_server_that_was_killed(folder: Path) -> None:
    server = serving(folder, "--workers", "0")
    server.kill()
    findings = found(folder, "--http", "local")
    assert "the next one replaces it" in findings["socket"]["detail"]
    assert findings["lock"]["detail"] == "free"
    server = serving(folder, "--workers", "0")
    server.stop()


def test_a_server_without_http(folder: Path) -> None:
    with Server(folder, "--workers", "0"):
        findings = found(folder)
    assert findings["server"]["level"] == "warning"
    assert "does not serve HTTP" in findings["server"]["detail"]


def another_program(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE things (name TEXT)")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: path.write_text("shopping list\n" * 100), "file is not a database"),
        (another_program, "another program"),
        (lambda path: path.mkdir(), "file.db is a directory"),
    ],
)
def test_a_database_that_is_none(folder: Path, make: Callable[[Path], object], says: str) -> None:
    make(folder / "file.db")
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    findings = found(folder, "--db", "file.db", "--http", "local")
    assert findings["database"]["level"] == "failed"
    assert says in findings["database"]["detail"]
    assert levels(findings, but="database") == {"ok"}
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


@pytest.mark.behaviour("TIM-16")
def test_more_runs_than_are_to_be_kept(folder: Path) -> None:
    serving(folder, "--workers", "0").stop()
    columns = (
        "id, job_id, tenant, created_at, scheduled_at, job_version, lane, state, reason, actor, created_by, changed_at"
    )
    counts = "seq, attempt, fence, failures, crashes, heartbeats, has_checkpoint"
    with closing(sqlite3.connect(folder / "interlock.db")) as connection:
        connection.execute(
            f"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50002) "
            f"INSERT INTO runs ({columns}, {counts}, ended_at, payload) "
            "SELECT 'r' || i, 'job' || (i % 2), 'default', 1, 1, '', '', 'succeeded', '', '', '', 1, "
            "1, 1, 1, 0, 0, 0, 0, 1, '{}' FROM n"
        )
        connection.commit()
    assert found(folder, "--http", "local")["stored runs"]["detail"] == "50,002"
    for limit in ("INTERLOCK_KEEP_RUNS", "INTERLOCK_KEEP_RUNS_TOTAL"):
        runs = found(folder, "--http", "local", **{limit: "1"})["stored runs"]
        if limit == "INTERLOCK_KEEP_RUNS":
            assert runs["level"] == "ok", "50,000 too many may be those of a minute"
        else:
            assert (runs["level"], "pruning is behind" in runs["fix"]) == ("warning", True)
            assert "about 50,001 more than" in runs["detail"]


def test_a_folder_that_is_not_there(folder: Path) -> None:
    findings = found(folder, "--db", "nowhere/file.db", "--http", "local")
    assert findings["folder"]["level"] == "failed"
    assert findings["folder"]["fix"] == f"mkdir -p {folder / 'nowhere'}"


def test_a_port_that_another_program_has(folder: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        findings = found(folder, "--http", address)
    assert findings["port"]["level"] == "failed"
    assert findings["port"]["detail"] == f"{address} is taken by another program"
    assert found(folder, "--http", address)["port"]["detail"] == f"{address} is free"


def test_a_port_that_is_served_by_us(folder: Path) -> None:
    with Server(folder, "--http", "127.0.0.1:0", "--workers", "0") as server:
        address = server.url.removeprefix("http://")
        # The port is open before its gateway has come up.
        assert server.http.get("/healthz").status == 200
        assert found(folder, "--http", address)["port"]["detail"] == f"{address} is served by Interlock"
        assert "server: store" in found(folder, "--http", "local", "--url", server.url)


def test_an_open_address_without_tokens(folder: Path) -> None:
    findings = found(folder, "--http", "0.0.0.0:8420")
    assert findings["port"]["level"] == "failed"
    assert "tokens" in findings["port"]["fix"]


def test_settings_with_a_mistake(folder: Path) -> None:
    (folder / "interlock.yaml").write_text("slots: 1\nhtpp: local\n")
    findings = found(folder)
    assert findings["settings"]["level"] == "failed"
    assert findings["settings"]["detail"] == "interlock.yaml:2: 'htpp' is not a setting; did you mean 'http'?"
    assert findings["disk space"]["level"] == "ok"


@pytest.mark.parametrize(
    ("secret", "mode", "level"),
    [
        (f"token: {SECRET}", 0o644, "warning"),
        (f"token: {SECRET}", 0o640, "warning"),
        (f"token: {SECRET}", 0o600, "ok"),
        ("sha256: " + "ab" * 32, 0o644, "ok"),
        ("env: THE_TOKEN", 0o644, "ok"),
        ("env: NO_TOKEN", 0o644, "failed"),
        (f"token: {SECRET}", 0o602, "failed"),
        ("sha256: " + "ab" * 32, 0o646, "failed"),
    ],
)
@pytest.mark.behaviour("SEC-4")
def test_tokens_that_others_may_read_or_change(folder: Path, secret: str, mode: int, level: str) -> None:
    file = folder / "interlock.yaml"
    file.write_text(f"http: local\ntokens:\n- {{name: ci, role: viewer, {secret}}}\n")
    os.chmod(file, mode)
    findings = found(folder, THE_TOKEN=SECRET)
    assert findings["settings"]["level"] == level
    assert levels(findings, but="settings") == {"ok"}


@pytest.mark.parametrize(
    ("text", "level", "says"),
    [
        ("1 / 0\n", "failed", "ZeroDivisionError"),
        ("import interlock\napp = interlock.App()\n", "warning", "has no jobs"),
        ("import interlock\napp = interlock.App()\napp.service('a', process=['a'])\n", "ok", "has 0 jobs"),
    ],
)
def test_apps(folder: Path, text: str, level: str, says: str) -> None:
    (folder / "jobs.py").write_text(text)
    finding = found(folder, "--http", "local", "-A", "jobs:app")["app"]
    assert finding["level"] == level
    assert says in finding["detail"]


SHOP = "kind: Group\nid: shop\n---\nkind: Service\nid: web\ngroup: shop\nrun: {process: [web]}\n"
APP = """\
import interlock
app = interlock.App()
app.group("back")
app.service("cache", process=["a"], group="shop")
app.service("base", process=["a"], group="back")
"""


def declare(folder: Path, text: str) -> None:
    (folder / "interlock.yaml").write_text("http: local\nfiles: [services]\n")
    (folder / "services").mkdir()
    (folder / "services" / "a.yaml").write_text(text)


def test_what_files_and_the_app_declare_is_counted(folder: Path) -> None:
    assert found(folder, "--http", "local")["declared"]["detail"] == "0 jobs, 0 services, 0 groups and 0 lanes"
    declare(folder, SHOP)
    assert found(folder)["declared"]["detail"] == "0 jobs, 1 service, 1 group and 0 lanes"
    (folder / "jobs.py").write_text(APP)
    assert found(folder, "-A", "jobs:app")["declared"]["detail"] == "0 jobs, 3 services, 2 groups and 0 lanes"


def test_a_warning_is_told_too(folder: Path) -> None:
    declare(folder, "kind: Job\nid: a\nschedule: {cron: 0 2 * * *, wait: 5s}\nrun: {shell: x}\n")
    told = [line.split("\t")[:3] for line in interlock(folder, "doctor").stdout.splitlines() if "declared" in line]
    assert [one[0] for one in told] == ["warning", "ok"]
    assert told[0][2].startswith("services/a.yaml:3: schedule.wait: has no effect beside cron")
    assert told[1][2] == "1 job, 0 services, 0 groups and 0 lanes"


def test_every_fault_of_what_is_declared_is_told(folder: Path) -> None:
    declare(folder, SHOP + "restart: maybe\ncwd: ''\n---\nkind: Group\nid: latest\n")
    (folder / "jobs.py").write_text(APP + "app.group('web')\n")
    ended = interlock(folder, "doctor", "-A", "jobs:app")
    assert ended.returncode == 1
    told = [line.split("\t")[:3] for line in ended.stdout.splitlines() if not line.startswith("ok\t")]
    assert {(level, name) for level, name, _ in told} == {("failed", "declared")}
    assert [without_rule(detail.partition(": ")[2]) for _, _, detail in told] == [
        "id: 'web' is declared twice, first at jobs.py:6",
        "restart: 'maybe' is not",
        "cwd: '' is not",
        "id: 'latest' is not",
    ]


def test_what_an_app_would_declare_is_not_missed_when_it_cannot_be_imported(folder: Path) -> None:
    declare(folder, SHOP + "---\nkind: Service\nid: two\ngroup: back\nrun: {process: [a]}\n")
    findings = found(folder, "-A", "nowhere:app")
    assert findings["app"]["level"] == "failed"
    assert findings["declared"]["level"] == "ok"
    detail = found(folder)["declared"]["detail"]
    assert detail == "services/a.yaml:11: group: 'back' is not declared"


def test_a_single_fault_and_a_file_that_is_not_there(folder: Path) -> None:
    (folder / "interlock.yaml").write_text("http: local\nfiles: [gone.yaml]\n")
    finding = found(folder)["declared"]
    assert (finding["level"], finding["detail"]) == ("failed", "gone.yaml: cannot be read (No such file or directory)")


def test_how_it_reads(folder: Path) -> None:
    drawn = Terminal.plain(in_a_terminal(folder, "doctor", "--http", "local", "-A", "nowhere:app"))
    assert "✓ python" in drawn
    assert "✗ app" in drawn
    assert "→ " in drawn
    plain = interlock(folder, "doctor", "--http", "local")
    assert [line.split("\t")[0] for line in plain.stdout.splitlines()] == ["ok"] * len(plain.stdout.splitlines())


def test_the_file_system_is_known() -> None:
    assert doctor_checks.file_system(Path("/proc/self")) == "proc"
    assert doctor_checks.file_system(Path("/")) not in (None, "proc")


def damaged(folder: Path) -> Path:
    """A database with 300 runs, of which some pages are overwritten."""
    path = folder / "file.db"

    async def fill(store: AnyStore) -> None:
        lease = await take(store)
        batch = created(*(make_run(f"run {number}", payload=bytes(500)) for number in range(300)))
        batch.jobs = [JOB]
        await store.commit(batch, lease)

    run_with(SqliteStore(path), fill)
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 4096 // 2 * 4096)
        file.write(b"\xaa" * 8192)
    return path


@pytest.mark.behaviour("RUN-17")
def test_a_damaged_database_and_its_repair(folder: Path) -> None:
    path = damaged(folder)
    before = path.read_bytes()
    findings = found(folder, "--db", "file.db", "--http", "local")
    assert findings["database"]["level"] == "failed"
    assert "file.db is damaged (" in findings["database"]["detail"]
    assert "interlock doctor --db file.db --repair-copy NEWFILE" in findings["database"]["detail"]
    repaired = found(folder, "--db", "file.db", "--repair-copy", "new.db")
    assert repaired["repair"]["detail"] == "saved into new.db; use it with: interlock up --db new.db"
    assert repaired["repair: runs"]["level"] == "warning"
    counted = re.fullmatch(r"(\d+) rows saved, (\d+) lost", repaired["repair: runs"]["detail"])
    assert counted is not None
    assert 0 < int(counted[2]) < int(counted[1])
    assert int(counted[1]) + int(counted[2]) == 300
    assert repaired["repair: job_versions"]["detail"] == "1 rows saved, 0 lost"
    assert path.read_bytes() == before
    assert found(folder, "--db", "new.db", "--http", "local")["database"]["level"] == "ok"
    again = found(folder, "--db", "file.db", "--repair-copy", "new.db")
    assert again["repair"]["level"] == "failed"
    assert "'new.db'" in again["repair"]["detail"]


@pytest.mark.behaviour("SEC-4")
@pytest.mark.parametrize(("mode", "name", "level"), [(0o644, "file mode", "warning"), (0o666, "database", "failed")])
def test_a_database_that_others_may_open(folder: Path, mode: int, name: str, level: str) -> None:
    run_with(SqliteStore(folder / "file.db"), take)
    (folder / "file.db").chmod(mode)
    findings = found(folder, "--db", "file.db", "--http", "local")
    assert findings[name]["level"] == level
    assert "chmod 600 file.db" in findings[name]["detail"] + findings[name]["fix"]


@pytest.mark.behaviour("LAN-1", "OUT-1")
def test_variables_that_only_other_programs_read_are_named_with_ours(folder: Path) -> None:
    foreign = {"GOCLAW_LANE_TEAM": "50", "OUTPUT_POLICY_ENABLED": "true", "OUTPUT_POLICY": "x", "GOCLAW_LANES": "y"}
    instead = {
        "GOCLAW_LANE_TEAM is not read": "set INTERLOCK_LANE_TEAM",
        "OUTPUT_POLICY_ENABLED is not read": "write output: into the document 'kind: Policy' instead",
    }
    ended = interlock(folder, "up", "-A", "nowhere:app", **foreign)
    warned = [line.split(" ", 2)[2] for line in ended.stderr.splitlines() if "not read" in line]
    assert warned == [f"{what}; {fix}" for what, fix in instead.items()]
    checks = json.loads(interlock(folder, "doctor", "--json", "--http", "local", **foreign).stdout)["checks"]
    assert {one["detail"]: one["fix"] for one in checks if one["level"] == "warning"} == instead
