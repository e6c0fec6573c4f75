"""What failed, runs by a text, the policy in force, and requests that are only tried."""

from collections.abc import Iterator
from typing import Any

import pytest

import interlock as il
from interlock.model.failures import error_of, grouped
from interlock.model.run import Run
from interlock.model.state import State
from tests.api.conftest import sound
from tests.api.tokens import as_
from tests.cli.asking import printed, rows
from tests.contract.samples import make_run
from tests.helpers.places import clean_folder
from tests.helpers.processes import wait_until
from tests.helpers.server import Server

RUNS, FAILURES, POLICY = "/api/v1/runs", "/api/v1/failures", "/api/v1/policy"
POLICIES = """\
kind: Policy
id: money
default_decision: allow
rules:
- {id: payments, match: {topics: [fail]}, decision: require_approval, reason: a person agrees}
- {id: never, match: {topics: [fatal], labels: {team: red}}, decision: deny, reason: not now}
---
kind: Job
id: ticking
schedule: {every: 60s}
run: {process: ["true"]}
"""


@pytest.fixture(scope="module")
def judged() -> Iterator[Server]:
    with clean_folder() as place:
        (place / "policy.yaml").write_text(POLICIES)
        with sound(Server(place, "policy.yaml", "--drain", "1s", "--http", "127.0.0.1:0")) as running:
            yield running


# ── failures ────────────────────────────────────────────────────────────────────────────────────────────────────────


def failed(run_id: str, error: str | None = None, **fields: Any) -> Run:
    return make_run(run_id, **{"state": State.FAILED, "ended_at": 2000.0, "error": error} | fields)


@pytest.mark.parametrize(
    ("first", "second", "shown"),
    [
        ("CUDA out of memory on device 0", "CUDA out of memory on device 17", "CUDA out of memory on device #"),
        ("line 9 has 3 columns", "line 10,000 has 2.5 columns", "line # has # columns"),
        ("at 0x7f3a", "at 0xBEEF", "at #"),
        ("run 01a1ea03c6d42aa0 lost", "run 01b2fb14d7e53bb1 lost", "run # lost"),
        ("no 3f2b8c1e-9d4a-4e6f-8a7b-1c2d3e4f5a6b", "no 00000000-9d4a-4e6f-8a7b-1c2d3e4f5a6b", "no #"),
        (
            "Traceback:\n  File x, line 7\nValueError: bad 1",
            "Traceback:\n other\nValueError: bad 2\n",
            "ValueError: bad #",
        ),
        ("deadbeef facade", "deadbeef facade", "deadbeef facade"),
    ],
)
def test_errors_that_differ_in_numbers_are_one(first: str, second: str, shown: str) -> None:
    assert error_of(failed("a", first)) == error_of(failed("b", second)) == shown


def test_groups_by_job_and_error_the_largest_first() -> None:
    runs = [failed(f"r{number}", f"device {number}", ended_at=2000.0 + number) for number in range(3)]
    runs += [failed("other", "device 1", job_id="import"), failed("late", None, state=State.TIMEOUT, reason="deadline")]
    first, *others = grouped(runs)
    assert (first.job, first.error, first.count, first.states) == ("work", "device #", 3, {"failed": 3})
    assert (first.run, first.newest, first.oldest) == ("r2", 2002.0, 2000.0)
    assert {(one.job, one.error, one.count) for one in others} == {("import", "device #", 1), ("work", "deadline", 1)}
    assert len(error_of(failed("long", "x" * 10_000))) == 200


@pytest.mark.behaviour("OBS-4")
def test_failures_over_http_and_on_the_command_line(server: Server) -> None:
    http = server.http
    for _ in range(3):
        http.ended(http.submit("fatal", tenant="grouped"))
        http.ended(http.submit("echo", tenant="grouped"))
    http.post(f"{RUNS}/{http.submit('echo', delay='1h', tenant='grouped')}/cancel", {})
    found = http.get(FAILURES, tenant="grouped").json
    (group,) = found["failures"]
    assert (group["job"], group["count"], found["runs"], found["reached"]) == ("fatal", 3, 3, None)
    assert group["states"] == {"failed": 3}
    assert http.get(FAILURES, tenant="grouped", job="echo").json["failures"] == []
    assert http.get(FAILURES, tenant="grouped", since="2999-01-01T00:00:00Z").json["failures"] == []
    with il.Client(server.url) as client:
        assert [one.count for one in client.failures(tenant="grouped")] == [3]
    assert [row[:2] for row in rows(server, "failures", "--tenant", "grouped")] == [["3", "fatal"]]


@pytest.mark.behaviour("SEC-2")
def test_failures_of_other_tenants_do_not_exist(guarded: Server) -> None:
    boss, stranger = as_(guarded, "boss"), as_(guarded, "stranger")
    boss.ended(boss.submit("fatal", tenant="red"))
    boss.ended(boss.submit("fatal", tenant="blue"))
    assert boss.get(FAILURES).json["runs"] >= 2
    own = stranger.get(FAILURES).json
    assert own["runs"] == boss.get(FAILURES, tenant="blue").json["runs"]
    assert stranger.get(FAILURES, tenant="red").json == {"failures": [], "runs": 0, "reached": None}
    assert stranger.get(POLICY).code == "forbidden"


# ── a text ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("OBS-4")
def test_runs_by_a_text_and_exactly_these_are_cancelled(server: Server) -> None:
    http = server.http
    wanted = [http.submit("echo", delay="1h", labels={"team": "Needle"}, tenant="hay") for _ in range(3)]
    others = [http.submit("echo", delay="1h", labels={"team": "thread"}, tenant="hay") for _ in range(2)]
    found = http.get(RUNS, text="team=needle").json
    assert ({run["id"] for run in found["runs"]}, found["next"], found["reached"]) == (set(wanted), None, None)
    assert {row[0] for row in rows(server, "runs", "--text", "NEEDLE")} == set(wanted)
    assert http.get(RUNS, text="needle", job="fatal").json["runs"] == []
    assert http.get(RUNS, text="").status == 400
    tried = http.post(f"{RUNS}/cancel", {"text": "needle", "dry_run": True}).json
    assert (tried["matching"], tried["id"], tried["text"]) == (3, "", "needle")
    assert {http.get(f"{RUNS}/{run_id}").json["state"] for run_id in wanted} == {"prerun"}, "it was only tried"
    bulk = http.post(f"{RUNS}/cancel", {"text": "needle"}).json
    wait_until(lambda: http.get(f"/api/v1/bulk/{bulk['id']}").json["ended_at"], "it is done")
    assert {http.get(f"{RUNS}/{run_id}").json["state"] for run_id in wanted} == {"cancelled"}
    assert {http.get(f"{RUNS}/{run_id}").json["state"] for run_id in others} == {"prerun"}


@pytest.mark.behaviour("OBS-4")
def test_one_search_looks_beyond_the_first_thousand_runs(server: Server) -> None:
    http = server.http
    wanted = http.submit("echo", delay="1h", labels={"team": "deep"}, tenant="pile")
    many = [{"job": "echo", "delay": "1h", "tenant": "pile"}] * 1000
    for _ in range(2):
        assert http.post(f"{RUNS}/batch", {"runs": many}).status == 201
    found = http.get(RUNS, text="team=deep", tenant="pile").json
    assert [run["id"] for run in found["runs"]] == [wanted]
    http.post(f"{RUNS}/cancel", {"tenant": "pile"})


# ── requests that are only tried ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("RUN-25")
def test_a_dry_run_counts_what_the_action_would_change(server: Server) -> None:
    http = server.http

    def matching(action: str, **wanted: Any) -> int:
        answer = http.post(f"{RUNS}/{action}", {"tenant": "tried", "dry_run": True} | wanted)
        assert (answer.status, answer.json["action"], answer.json["id"]) == (202, action, "")
        found: int = answer.json["matching"]
        return found

    waiting = [http.submit("echo", delay="1h", tenant="tried") for _ in range(4)]
    ended = [http.ended(http.submit("fatal", tenant="tried"))["id"] for _ in range(2)]
    http.post(f"{RUNS}/{waiting[0]}/hold", {})
    assert (matching("cancel"), matching("hold"), matching("release"), matching("retry")) == (4, 3, 1, 2)
    assert matching("cancel", job="fatal") == 0
    again = http.post(f"{RUNS}/{ended[0]}/retry", {}).json["id"]
    assert http.ended(again)["state"] == "failed"
    assert matching("retry") == 2, "the new run, and the one that was not retried"
    assert http.get(f"{RUNS}/{waiting[1]}").json["state"] == "prerun"
    assert http.post(f"{RUNS}/cancel", {"dry_run": True}).status == 400, "a filter, or all"


@pytest.mark.behaviour("SEC-2")
def test_a_dry_run_counts_no_runs_of_other_tenants(guarded: Server) -> None:
    boss, stranger = as_(guarded, "boss"), as_(guarded, "stranger")
    boss.submit("echo", delay="1h", tenant="red")
    mine = stranger.post(f"{RUNS}/cancel", {"all": True, "dry_run": True}).json["matching"]
    of_all = boss.post(f"{RUNS}/cancel", {"all": True, "dry_run": True}).json["matching"]
    assert mine < of_all
    assert as_(guarded, "guest").post(f"{RUNS}/cancel", {"all": True, "dry_run": True}).code == "forbidden"


@pytest.mark.behaviour("TIM-11")
def test_a_backfill_is_tried_first(judged: Server) -> None:
    http = judged.http

    def backfill(**fields: Any) -> Any:
        body = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:05:00Z"} | fields
        return http.post("/api/v1/jobs/ticking/backfill", body).json

    tried = backfill(dry_run=True)
    assert (len(tried["created"]), tried["existing"]) == (5, [])
    assert http.get(f"{RUNS}/{tried['created'][0]}").status == 404
    done = backfill(to="2026-01-01T00:02:00Z")
    assert done["created"] == tried["created"][:2]
    again = backfill(dry_run=True)
    assert (again["existing"], again["created"]) == (tried["created"][:2], tried["created"][2:])
    shown = rows(judged, "backfill", "ticking", "2026-01-01T00:00:00Z", "2026-01-01T00:03:00Z", "--dry-run")
    assert [word for word, _ in shown] == ["created", "existing", "existing"]


# ── the policy ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("POL-8")
def test_the_policy_in_force_with_its_verdicts(judged: Server) -> None:
    http = judged.http
    http.ended(http.submit("echo"))
    http.submit("fail")
    denied = http.ended(http.submit("fatal", labels={"team": "red"}))
    assert denied["state"] == "denied"

    def verdicts() -> Any:
        return [rule["verdicts"] for rule in http.get(POLICY).json["rules"]]

    wait_until(lambda: verdicts() == [{"require_approval": 1}, {"deny": 1}], "both are counted")
    assert http.get(POLICY).json["default_verdicts"].keys() == {"allow"}
    found = http.get(POLICY).json
    assert (found["id"], found["remote"], found["default_decision"]) == ("money", False, "allow")
    assert found["digest"] in denied["reason"]
    first, second = found["rules"]
    assert (first["id"], first["decision"], first["reason"]) == ("payments", "require_approval", "a person agrees")
    assert (first["match"], first["when"]) == ({"topics": ["fail"]}, None)
    assert second["match"] == {"topics": ["fatal"], "labels": {"team": "red"}}
    assert rows(judged, "policy", "show")[1] == ["never", "deny", "deny 1", "not now"]
    assert printed(judged, "policy", "show", "--json")["digest"] == found["digest"]


def test_without_a_policy_every_run_is_allowed(server: Server) -> None:
    found = server.http.get(POLICY).json
    assert (found["id"], found["digest"], found["rules"], found["default_decision"]) == (None, None, [], None)
