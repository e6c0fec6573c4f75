"""`interlock policy`: cases, explanations, and the difference to recorded runs."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import interlock as il
from interlock.cli.group import run
from interlock.cli.main import COMMANDS
from tests.cli.asking import ask, printed
from tests.cli.conftest import serving
from tests.cli.test_check import Ended
from tests.helpers.processes import wait_until
from tests.helpers.server import Server, interlock

pytestmark = pytest.mark.behaviour("POL-12")

POLICY = """\
kind: Policy
id: main
default_decision: deny
tenants: {acme: {deny_topics: ["echo*"]}}
rules:
- id: large
  match: {payload_over: 1kB}
  decision: deny
- id: money
  when: has(payload.value) && payload.value > 100
  decision: require_approval
- id: often
  velocity: {max_requests: 2, window: 1m, key: tenant}
  decision: throttle
- id: echo
  match: {topics: [echo], labels: {env: test}}
  decision: allow
cases:
- {name: plain, job: echo, labels: {env: test}, expect: allow, rule: echo}
- {name: unlabelled, job: echo, expect: deny, rule: ""}
- {name: money, job: echo, payload: {value: 101}, expect: require_approval}
- {name: third, job: echo, times: 3, expect: throttle, rule: often}
- {name: acme, job: echo, tenant: acme, labels: {env: test}, expect: deny}
"""
Call = Callable[..., Ended]


@pytest.fixture
def policy(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Call:
    """Run a command in this process, in a folder with the policy."""
    monkeypatch.chdir(tmp_path)
    Path("policy.yaml").write_text(POLICY)

    def call(*arguments: str) -> Ended:
        return Ended(run(COMMANDS, ["policy", *arguments]), *capsys.readouterr())

    return call


def test_cases(policy: Call) -> None:
    ended = policy("test", "policy.yaml")
    assert (ended.returncode, ended.stderr) == (0, "5 of 5 cases passed\n")
    assert [line.split("\t")[:6] for line in ended.stdout.splitlines()][::4] == [
        ["ok", "plain", "allow", "echo", "allow", "echo"], ["ok", "acme", "deny", "", "deny", ""],
    ]  # fmt: skip
    Path("policy.yaml").write_text(POLICY.replace("expect: throttle, rule: often", "expect: throttle, rule: echo"))
    ended = policy("test", "policy.yaml")
    assert (ended.returncode, ended.stderr) == (1, "4 of 5 cases passed\n")
    failed = next(line for line in ended.stdout.splitlines() if line.startswith("failed"))
    assert failed == "failed\tthird\tthrottle\techo\tthrottle\toften\trule 'often'"
    found = json.loads(policy("test", "--json", "policy.yaml").stdout)
    assert (found["ok"], found["policy"], found["cases"][3]["result"]) == (False, "main", "failed")
    Path("policy.yaml").write_text(POLICY.partition("cases:")[0])
    ended = policy("test", "policy.yaml")
    assert (ended.returncode, ended.stderr) == (0, "warning: the policy has no cases\n")


def test_a_case_takes_what_it_leaves_out_from_its_job(policy: Call) -> None:
    Path("all.yaml").write_text("""\
kind: Job
id: pay
run: {process: [pay]}
topic: billing.pay
capabilities: [money]
risk_tags: [pii]
requires: [vault]
priority: batch
payload: {amount: 5}
---
kind: Policy
id: main
rules:
- id: a
  match: {topics: ["billing.*"], capabilities: [money], risk_tags: [pii], requires: [vault], priority: [batch]}
  when: payload.amount == 5 && lane == 'main'
  decision: allow
cases:
- {name: from the job, job: pay, expect: allow}
- {name: its own, job: pay, capabilities: [], expect: deny}
""")
    assert policy("test", "all.yaml").stderr == "2 of 2 cases passed\n"


def test_explanations_without_a_server(policy: Call) -> None:
    ended = policy("explain", "--job", "echo", "--label", "env=prod", "-p", "value=7", "policy.yaml")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert [line.split("\t") for line in ended.stdout.splitlines()] == [
        ["deny", "", "no rule matches"],
        ["large", "passes", "payload_size: 11 does not fit over 1,000"],
        ["money", "passes", "when: has(payload.value) && payload.value > 100 is false"],
        ["often", "passes", "velocity: matches only after 2 requests with the same tenant within 60s"],
        ["echo", "passes", "labels.env: prod does not fit test"],
        ["default", "decides", "no rule matches: deny"],
    ]
    found = json.loads(policy("explain", "--json", "--job", "echo", "--tenant", "acme", "policy.yaml").stdout)
    assert found["verdict"]["decision"] == "deny"
    assert [one["place"] for one in found["steps"]] == ["large", "money", "often", "echo", "default"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["test"], "PATH: missing"),
        (["test", "missing.yaml"], "missing.yaml: cannot be read"),
        (["test", "jobs.yaml"], "jobs.yaml: no document has 'kind: Policy'"),
        (["explain", "policy.yaml"], "PATH: missing"),
        (["explain"], "RUN: missing; give a run, or a job with --job"),
        (["explain", "--job", "a b", "policy.yaml"], "job: 'a b' is not"),
        (["explain", "--job", "a", "--label", "x", "policy.yaml"], "--label: 'x' is not"),
        (["diff", "--since", "soon", "policy.yaml"], "--since: 'soon' is not"),
        (["diff", "--limit", "0", "policy.yaml"], "--limit: 0 is not"),
    ],
)
def test_wrong_usage(policy: Call, arguments: list[str], says: str) -> None:
    Path("jobs.yaml").write_text("kind: Job\nid: a\nrun: {shell: echo}\n")
    ended = policy(*arguments)
    assert ended.returncode == 2
    assert says in ended.stderr


def test_recorded_runs(server: Server, tmp_path: Path) -> None:
    new, old = tmp_path / "policy.yaml", tmp_path / "old.yaml"
    new.write_text(POLICY.replace("max_requests: 2", "max_requests: 10000"))
    old.write_text("kind: Policy\nid: old\nrules: [{id: all, decision: allow}]\n")
    label = ["--label", "env=test"]
    ids = [
        ask(server, "submit", "echo", "-p", f"value={value}", *more).stdout.strip()
        for value, more in ((1, label), (2, []), (101, label), (3, [*label, "--tenant", "acme"]))
    ]
    done = ask(server, "policy", "diff", str(new))
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert [(line[0], line[3], line[5], line[6]) for line in lines if line[0] in ids] == [
        (ids[1], "allow", "deny", ""), (ids[2], "allow", "require_approval", "money"), (ids[3], "allow", "deny", ""),
    ]  # fmt: skip
    assert " runs would change: " in done.stderr
    assert "1 allow → require_approval" in done.stderr
    found = printed(server, "policy", "diff", "--json", "--old", str(old), "-n", "4", str(new))
    assert (found["judged"], [one["run"] for one in found["changes"]]) == (4, ids[1:])
    velocity = "velocity: {max_requests: 3, window: 1h}"
    old.write_text(
        f"kind: Policy\nid: p\nrules: [{{id: fast, {velocity}, decision: deny}}, {{id: a, decision: allow}}]\n"
    )
    found = printed(server, "policy", "diff", "--json", "-n", "4", str(old))
    assert [(one["run"], one["rule"]) for one in found["changes"]] == [(ids[3], "fast")]
    explained = ask(server, "policy", "explain", ids[2], str(new))
    assert (explained.stdout.splitlines()[0], explained.stderr) == ("require_approval\tmoney\trule 'money'", "")
    hidden = ask(server, "submit", "keep.secret", "-p", "value=hunter2").stdout.strip()
    explained = ask(server, "policy", "explain", hidden, str(new))
    assert "secrets in payloads are masked" in explained.stderr


@pytest.mark.behaviour("POL-3")
def test_the_start_doctor_and_reload_say_which_policy_is_in_force(folder: Path) -> None:
    nothing = "none; every run is allowed"

    def by_doctor() -> str:
        checks = json.loads(interlock(folder, "doctor", "--json", "--http", "local").stdout)["checks"]
        return str(next(one["detail"] for one in checks if one["name"] == "policy"))

    file = folder / "policies" / "main.yaml"
    file.parent.mkdir()
    file.write_text("# none yet\n")
    (folder / "interlock.yaml").write_text("files: [policies]\n")
    server = serving(folder, "--workers", "0")
    try:
        wait_until(lambda: f"policy: {nothing}\n" in server.said, "it says so")
        assert by_doctor() == nothing
        file.write_text(POLICY)
        assert "added\tpolicy\tmain\n" in interlock(folder, "reload").stdout
        file.write_text(POLICY.replace("decision: throttle", "decision: throtle"))
        refused = interlock(folder, "reload")
        assert refused.returncode != 0
        assert "main.yaml:14: rules[2].decision: 'throtle' is not one of" in refused.stderr
        file.write_text(POLICY)
        assert "unchanged\tpolicy\tmain\n" in interlock(folder, "reload").stdout
        # The policy in force decides on recorded runs, whose secrets are masked, as it has decided.
        hides = "- {id: hides, match: {secrets: true}, decision: deny}"
        file.write_text(f"kind: Policy\nid: main\nrules:\n{hides}\n- {{id: rest, decision: allow}}\n")
        interlock(folder, "reload")
        values = {"password": "x"}, [{"api_key": "x"}], "see ••• below", {"$secret": "x"}, {"token": None}
        with il.Client(f"unix:{server.http_socket}") as client:
            reasons = [client.submit("echo", {"value": value}).info().reason for value in values]
        assert ["rule hides" in one for one in reasons] == [True, True, False, True, False]
        found = json.loads(interlock(folder, "policy", "diff", "--json", str(file)).stdout)
        assert (found["judged"], found["changes"]) == (5, [])
        file.write_text(POLICY)
        interlock(folder, "reload")
    finally:
        server.stop()
    assert by_doctor().endswith("4 rules; deny if none matches")
    server.start()
    server.stop()
    assert re.search(r"^policy: main \([0-9a-f]{16}\), 4 rules; deny if none matches$", server.said, re.M)
