"""`interlock tree`, `service`, `reload`, and `logs` of a service: what they print, and that a real server says it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from interlock.cli.draw.children import CHILDREN, drawing, sentence_of
from interlock.cli.draw.tables import console
from interlock.cli.group import run
from interlock.cli.main import COMMANDS
from interlock.interface.bodies import ServiceList
from interlock.interface.run_view import ServiceLine, ServiceLogPage
from interlock.model.child_info import ChildInfo, Exit, Status
from interlock.model.reload_report import Difference, Reloaded
from tests.cli.terminal import Terminal, in_a_terminal
from tests.client.faulty import Faulty, Reply, answer, problem

DIRECTIONS = "".join(map(chr, [0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]))
EVIL = f"\x1b]0;title\x07\x1b[2Jgone\x9b31m{DIRECTIONS}"


NOW = 1e9 + 1000 * 86_400 + 9 * 3600
"""a time for drawings, whose columns are as wide as what stands in them"""


def child(path: str, kind: str = "process", status: Status = Status.RUNNING, **more: Any) -> ChildInfo:
    return ChildInfo(path=path, name=path.rpartition("/")[2], kind=kind, status=status, **more)


WEB = child("services/shop/web", pid=4711, since=1e9, restarts=2, last_exit=Exit(at=1e9 - 1, signal=9))
QUEUE = child(
    "services/queue",
    status=Status.PENDING,
    next_try_at=4e9,
    restarts=1,
    last_exit=Exit(at=1e9, code=1),
    reason="exit 1",
)
MAIL = child("services/mail", status=Status.FAILED, exhausted=True, reason="exit 3; restarted 5 times within 60s")
SHOP = child("services/shop", "supervisor", strategy="one_for_all", children=[WEB])
TOP = ChildInfo(
    path="",
    name="interlock",
    kind="supervisor",
    status=Status.RUNNING,
    children=[child("store", "function"), child("services", "supervisor", children=[SHOP, QUEUE, MAIL])],
)
LINES = [
    ServiceLine(1e9, "status", "starting"),
    ServiceLine(1e9 + 1, "stdout", "    indented"),
    ServiceLine(1e9 + 2, "stderr", f"a\tb{EVIL}"),
]


def said(*replies: Any) -> Faulty:
    """A server that gives these answers."""
    return Faulty(*(one if isinstance(one, Reply) else Reply(answer(one)) for one in replies))


def no_run(name: str) -> list[Reply]:
    """No id begins so, and none is so."""
    found = Reply(answer({"runs": [], "next": None}))
    return [found, Reply(problem("unknown_run", f"run: {name!r} does not exist", 404))]


class Ended(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Ended]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Runs a command in this process, which is quicker than one of its own."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Ended:
        code = run(COMMANDS, list(arguments))
        return Ended(code, *capsys.readouterr())

    return call


# ── tree ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_tree_as_rows(command: Run) -> None:
    with said(TOP) as server:
        ended = command("tree", "--url", server.url)
    assert (ended.returncode, ended.stderr) == (0, "")
    rows = [line.split("\t") for line in ended.stdout.splitlines()]
    assert [row[0] for row in rows] == [
        "", "store", "services", "services/shop", "services/shop/web", "services/queue", "services/mail",
    ]  # fmt: skip
    assert rows[4][1:] == ["process", "running", "4711", "2001-09-09T01:46:40.000Z", "2", "", "signal 9 (SIGKILL)", ""]
    assert rows[5][1:] == ["process", "pending", "", "", "1", "2096-10-02T07:06:40.000Z", "exit 1", "exit 1"]
    assert rows[6][-1] == "given up, exit 3; restarted 5 times within 60s"


def test_services_as_rows(command: Run) -> None:
    with said(ServiceList(services=[SHOP, WEB, MAIL])) as server:
        ended = command("services", "--url", server.url)
    assert [line.split("\t") for line in ended.stdout.splitlines()] == [
        ["shop", "supervisor", "running", "", "", "0", ""],
        ["web", "process", "running", "4711", "2001-09-09T01:46:40.000Z", "2", ""],
        ["mail", "process", "failed", "", "", "0", "given up, exit 3; restarted 5 times within 60s"],
    ]


def test_the_tree_in_json(command: Run) -> None:
    with said(TOP) as server:
        ended = command("tree", "--url", server.url, "--json")
    tree = json.loads(ended.stdout)
    assert ended.stdout.count("\n") == 1
    assert tree["children"][1]["children"][0]["children"][0]["pid"] == 4711


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (200, "name kind status pid up restarts next try last exit why"),
        (130, "name status pid up restarts next try last exit why"),
        (80, "name status up next try why"),
        (60, "name status why"),
        (40, "name status why"),
        (30, "name status why"),
        (28, "name status"),
    ],
)
def test_the_tree_drawn(width: int, columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a narrow terminal has no room for is left out, rather than that a name or a status is cut."""
    monkeypatch.setenv("COLUMNS", str(width))
    screen = console()
    with screen.capture() as captured:
        screen.print(drawing(TOP, NOW))
    drawn = captured.get()
    lines = drawn.splitlines()
    assert max(len(line) for line in lines) <= width
    assert " ".join(lines[0].split()) == columns
    names = ["interlock", "├─ store", "└─ services", "   ├─ shop", "   │  └─ web", "   ├─ queue", "   └─ mail"]
    statuses = ["running", "running", "running", "running", "running", "pending", "failed"]
    for line, name, status in zip(lines[1:], names, statuses, strict=True):
        assert line.startswith(f"{name} ")
        assert f" {status} " in f"{line} "
    assert (" in " in lines[6]) is (width >= 80)
    assert ("signal 9 (SIGKILL)" in drawn) is (width >= 130)


REASONS = ["exit 1", "exit 3; restarted 5 times within 60s", "not ready within 30s: " + "connection refused " * 9]


@pytest.mark.parametrize("width", [60, 80, 100, 130, 200])
@pytest.mark.parametrize("reason", REASONS)
def test_why_a_service_is_down_is_said_in_any_width(width: int, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reason that is the last exit as well; a long one is cut, where it stood before it is not left out."""
    monkeypatch.setenv("COLUMNS", str(width))
    code = int(reason.removeprefix("exit ")) if reason == "exit 1" else None
    ended = Exit(at=1e9, code=code, error="" if code else reason)
    pending = child("services/down", status=Status.PENDING, next_try_at=4e9, restarts=3, last_exit=ended, reason=reason)
    given_up = child("services/off", status=Status.FAILED, exhausted=True, last_exit=ended, reason=reason)
    services = child("services", "supervisor", children=[WEB, pending, given_up])
    screen = console()
    with screen.capture() as captured:
        screen.print(drawing(msgspec.structs.replace(TOP, children=[services]), NOW))
    lines = [line.rstrip() for line in captured.get().splitlines()]
    assert max(len(line) for line in lines) <= width
    start = lines[0].index("why")
    for line, whole in ((lines[-2], reason), (lines[-1], f"given up, {reason}")):
        shown = line[start:]
        if shown != whole.rstrip():
            assert shown.endswith("…")
            assert len(shown) >= 32
            assert whole.startswith(shown[:-1])


def test_a_long_end_takes_no_room_from_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    up_again = child("web", pid=1, since=1e9, last_exit=Exit(at=1e9, error="it did not answer " * 20))
    screen = console()
    with screen.capture() as captured:
        screen.print(drawing(msgspec.structs.replace(TOP, children=[up_again, MAIL]), NOW))
    assert "it did not answer it did not an…, " in captured.get()
    assert MAIL.reason in captured.get()


def test_colours_say_how_it_stands(folder: Path) -> None:
    with said(TOP) as server:
        drawn = in_a_terminal(folder, "tree", "--url", server.url)
    assert "\x1b[32mrunning" in drawn
    assert "\x1b[33mpending" in drawn
    assert "\x1b[31mfailed" in drawn


def test_what_a_service_says_does_not_steer_the_terminal(command: Run, folder: Path) -> None:
    evil = child("services/evil", status=Status.FAILED, reason=EVIL, last_exit=Exit(at=1.0, error=EVIL))
    page = ServiceLogPage(lines=LINES, next="s3")
    found = [CHILDREN.line(evil), sentence_of(evil, 1.0)]
    with said(evil) as server:
        found.append(in_a_terminal(folder, "tree", "--url", server.url, NO_COLOR="1"))
    answers = [page, ServiceLogPage(lines=[], next="s3")]
    with said(*answers) as server:
        found.append(in_a_terminal(folder, "logs", "evil", "--url", server.url, NO_COLOR="1"))
    with said(*answers) as server:
        found.append(command("logs", "evil", "--url", server.url).stdout)
    for text in found:
        assert [mark for mark in ("\x1b]", "\x1b[2J", "\x07", "\x9b", *DIRECTIONS) if mark in text] == []
        assert "\\x1b[2Jgone" in text
    assert (
        found[-1]
        .rstrip()
        .endswith("\\u061c\\u200e\\u200f\\u202a\\u202b\\u202c\\u202d\\u202e\\u2066\\u2067\\u2068\\u2069")
    )


def test_json_does_not_steer_the_terminal_and_means_the_same(command: Run) -> None:
    with said(ServiceLogPage(lines=LINES, next="s3"), ServiceLogPage(lines=[], next="s3")) as server:
        text = command("logs", "evil", "--json", "--url", server.url).stdout
    assert [mark for mark in ("\x1b", "\x07", "\x9b", *DIRECTIONS) if mark in text] == []
    assert json.loads(text.splitlines()[-1])["text"] == f"a\tb{EVIL}"


# ── service ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_service_is_acted_on(command: Run, folder: Path) -> None:
    with said(WEB) as server:
        ended = command("service", "restart", "web", "--url", server.url)
        assert (ended.returncode, ended.stderr) == (0, "")
        assert ended.stdout.split("\t")[:4] == ["services/shop/web", "process", "running", "4711"]
        assert json.loads(command("service", "stop", "web", "--json", "--url", server.url).stdout)["pid"] == 4711
        drawn = in_a_terminal(folder, "service", "suspend", "web", "--url", server.url, NO_COLOR="1")
        assert drawn.startswith("web: running, pid 4711, up ")
    assert [(one.method, one.path.rpartition("/")[2]) for one in server.asked] == [
        ("POST", "restart"), ("POST", "stop"), ("POST", "suspend"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("status", "action", "code"),
    [
        (Status.PENDING, "start", 5),
        (Status.FAILED, "restart", 5),
        (Status.SUSPENDED, "restart", 0),
        (Status.FINISHED, "start", 0),
        (Status.KILLED, "stop", 0),
    ],
)
def test_the_exit_code_says_whether_it_came_up(command: Run, status: Status, action: str, code: int) -> None:
    with said(child("services/web", status=status, reason="" if code == 0 else "exit 1")) as server:
        ended = command("service", action, "web", "--url", server.url)
    assert (ended.returncode, ended.stdout.split("\t")[2]) == (code, status)
    assert ended.stderr == ("" if code == 0 else "error: web is not up: exit 1 [service_not_up]\n")


@pytest.mark.parametrize(
    ("arguments", "says", "code"),
    [
        (
            ["strat", "web"],
            "error: action: 'strat' is not one of start, stop, restart, suspend, resume; did you mean",
            2,
        ),
        (["stop"], "error: missing argument 'NAME'", 2),
        (["stop", "a/"], "error: name: 'a/' is not in the tree [unknown_child]", 3),
        (["restart", "services/shop/web"], "error: name: 'services/shop/web' is not in the tree; ", 3),
    ],
)
def test_an_action_that_cannot_be(command: Run, arguments: list[str], says: str, code: int) -> None:
    ended = command("service", *arguments, "--url", "http://127.0.0.1:1")
    assert ended.stderr.startswith(says)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (code, "", 1)


@pytest.mark.parametrize(
    ("code", "status", "exit_code"),
    [("unknown_child", 404, 3), ("wrong_status", 409, 1), ("forbidden", 403, 6), ("connection_lost", 503, 4)],
)
def test_an_action_that_is_refused(command: Run, code: str, status: int, exit_code: int) -> None:
    with said(Reply(problem(code, "so it is", status))) as server:
        ended = command("service", "start", "web", "--url", server.url)
    assert (ended.returncode, ended.stdout, ended.stderr) == (exit_code, "", f"error: so it is [{code}]\n")
    assert len(server.asked) == 1


# ── reload ──────────────────────────────────────────────────────────────────────────────────────────────────────────

RELOADED = Reloaded(
    jobs=Difference(added=["tick"], unchanged=["tock"]),
    services=Difference(added=["a", "b"], changed=["c"], unchanged=["d"]),
)


def test_a_reload_says_what_has_changed(command: Run, folder: Path) -> None:
    with said(RELOADED) as server:
        ended = command("reload", "--url", server.url)
        assert (ended.returncode, ended.stderr) == (0, "")
        assert [line.split("\t") for line in ended.stdout.splitlines()] == [
            ["added", "job", "tick"],
            ["added", "service", "a"],
            ["added", "service", "b"],
            ["changed", "service", "c"],
            ["unchanged", "job", "tock"],
            ["unchanged", "service", "d"],
        ]
        said_in_json = json.loads(command("reload", "--json", "--url", server.url).stdout)
        assert (said_in_json["jobs"]["added"], said_in_json["services"]["added"]) == (["tick"], ["a", "b"])
        drawn = in_a_terminal(folder, "reload", "--url", server.url)
    assert drawn.splitlines() == [
        "added jobs: tick",
        "added services: a, b",
        "changed services: c",
        "unchanged jobs: tock",
        "unchanged services: d",
    ]


def test_a_reload_of_nothing(command: Run, folder: Path) -> None:
    with said(Reloaded(jobs=Difference(), services=Difference())) as server:
        assert in_a_terminal(folder, "reload", "--url", server.url) == "no jobs and no services\n"
        assert command("reload", "--url", server.url).stdout == ""


def test_every_fault_of_the_files_is_a_line(command: Run) -> None:
    faults = ["web.yaml:3: this", "web.yaml:9: that"]
    body = {"code": "bad_config", "detail": "2 faults", "faults": faults}
    with said(Reply(answer(body, 422, "application/problem+json"))) as server:
        ended = command("reload", "--url", server.url)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "error: 2 faults [bad_config]\n  web.yaml:3: this\n  web.yaml:9: that\n"


# ── logs ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_log_of_a_service(command: Run) -> None:
    answers = [ServiceLogPage(lines=LINES, next="s3"), ServiceLogPage(lines=[], next="s3")]
    with said(*answers) as server:
        ended = command("logs", "web", "--url", server.url)
    assert (ended.returncode, ended.stderr) == (0, "")
    rows = [line.split("\t") for line in ended.stdout.splitlines()]
    assert rows[:2] == [
        ["2001-09-09T01:46:40.000Z", "status", "starting"],
        ["2001-09-09T01:46:41.000Z", "stdout", "    indented"],
    ]
    assert len(rows[2]) == 3
    assert rows[2][2].startswith("a       b")
    with said(*answers) as server:
        ended = command("logs", "web", "--json", "--url", server.url)
    assert [json.loads(line)["stream"] for line in ended.stdout.splitlines()] == ["status", "stdout", "stderr"]


def test_the_log_of_a_service_in_a_terminal(folder: Path) -> None:
    with said(ServiceLogPage(lines=LINES[1:], next="s3")) as server:
        drawn = in_a_terminal(folder, "logs", "web", "--tail", "2", "--url", server.url, TZ="UTC")
        assert server.asked[0].path == "/api/v1/services/web/logs?limit=2&last=true"
    assert Terminal.plain(drawn).splitlines()[0] == "01:46:41.000 web stdout │     indented"
    assert "\x1b[33mstderr" in drawn


@pytest.mark.parametrize("follow", [[], ["-f"]])
def test_neither_a_run_nor_a_service(command: Run, follow: list[str]) -> None:
    text = "name: there is no 'wbe' in the tree; did you mean 'web'?"
    with said(Reply(problem("unknown_child", text, 404)), *no_run("wbe")) as server:
        ended = command("logs", "wbe", *follow, "--url", server.url)
    assert ended.stderr == f"error: run: 'wbe' does not exist; {text} [unknown_run]\n"
    assert ended.returncode == 3


def test_whoever_may_see_no_services_is_told_of_runs(command: Run) -> None:
    with said(Reply(problem("forbidden", "services are of all tenants", 403)), *no_run("x")) as server:
        ended = command("logs", "x", "--url", server.url)
    assert ended.stderr == "error: run: 'x' does not exist [unknown_run]\n"


@pytest.mark.parametrize("tail", ["-1", "10001", "many"])
def test_a_number_of_lines_that_is_none(command: Run, tail: str) -> None:
    ended = command("logs", "web", f"--tail={tail}", "--url", "http://127.0.0.1:1")
    assert ended.stderr.startswith("error: invalid value for '--tail'")
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
