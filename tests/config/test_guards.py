"""Constraints and actions in files and in Python: what is read, and every fault with its place."""

from typing import Any

import pytest

import interlock as il
from interlock.config.job_documents import read_job
from interlock.config.sources import FromApp, load
from interlock.error import BadConfig, InterlockError
from interlock.model.guard import Action, ActionKind, Check, Constraints, Decision, Format, Hook, OnHookError
from interlock.model.job import Job
from tests.config.writing import put

JOB = "kind: Job\nid: nightly\nrun: {process: [dump]}\n"
"""what a test adds begins on line 4"""
URL = "https://example.org/alert"
FIVE: Any = 5
PAGE: Any = "page"


def loaded(text: str) -> Job:
    return load([put(JOB + text)]).jobs[0].job


@pytest.mark.behaviour("CON-1", "CON-2", "CON-5", "CON-6")
def test_every_field_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACK", "https://hooks.example/T/B")
    monkeypatch.setenv("KEY", "x")
    job = loaded(f"""\
constraints:
  max_concurrent_runs: 2
  require_previous_success: true
  catch_up_window: 5m
  pre_run_hook: {URL}
  checks: [disk, {{job: budget, timeout: 5s, on_error: skip}}]
  recheck_on_retry: [pre_run_hook, checks]
  max_expected_run_time: 1h
  max_allowed_run_time: 2h
  post_run_hook: {{url: "{URL}", secret_env: KEY, timeout: 3s, on_error: allow}}
on_constraint_violation:
  - {{action: webhook, url_env: SLACK, format: slack}}
  - {{action: trigger_job, job: tidy, payload: {{all: true}}, then: {{action: retry_later, delay: 1m, limit: 1h}}}}
on_failure: {{action: webhook, url: "{URL}", body: '{{"text": "$job: $$5"}}', ordered: true, give_up_after: 2d}}
on_success: {{action: call, job: page}}
on_late: [{{action: webhook, url: "{URL}", token_env: KEY}}]
""")
    later = Decision(action=ActionKind.RETRY_LATER, delay=60.0, limit=3600.0)
    assert job.constraints == Constraints(
        max_concurrent_runs=2,
        require_previous_success=True,
        catch_up_window=300.0,
        pre_run_hook=Hook(url=URL),
        checks=(Check(job="disk"), Check(job="budget", timeout=5.0, on_error=OnHookError.SKIP)),
        recheck_on_retry=("pre_run_hook", "checks"),
        max_expected_run_time=3600.0,
        max_allowed_run_time=7200.0,
        post_run_hook=Hook(url=URL, secret_env="KEY", timeout=3.0, on_error=OnHookError.ALLOW),
    )
    assert job.max_runtime == 7200.0
    assert job.actions("on_constraint_violation") == (
        Action(action=ActionKind.WEBHOOK, url_env="SLACK", format=Format.SLACK),
        Action(action=ActionKind.TRIGGER_JOB, job="tidy", payload={"all": True}, then=later),
    )
    assert job.actions("on_constraint_violation")[-1].decision == later
    assert job.actions("on_success") == (Action(action=ActionKind.CALL, job="page"),)
    assert [one.give_up_after for one in job.actions("on_failure")] == [2 * 86400.0]


@pytest.mark.parametrize("words", ["skip", "wait", "kill_old", "retry_later"])
def test_a_word_stands_for_an_action(words: str) -> None:
    job = loaded(f"constraints: {{max_concurrent_runs: 1}}\non_constraint_violation: {words}\n")
    assert [one.action for one in job.actions("on_constraint_violation")] == [words]


MAX = "constraints: {max_concurrent_runs: 1}\n"
HOOK = f"{{action: webhook, url: '{URL}'}}"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("constraints: {max_runs: 1}", "4: constraints.max_runs: unknown field"),
        ("constraints: {max_concurent_runs: 1}", "did you mean 'max_concurrent_runs'?"),
        ("constraints: {max_concurrent_runs: 0}", "constraints.max_concurrent_runs: 0 is not"),
        ("constraints: {max_concurrent_runs: -1}", "constraints.max_concurrent_runs: -1 is not"),
        ("constraints: {max_concurrent_runs: many}", "constraints.max_concurrent_runs: 'many' is not"),
        ("constraints: {require_previous_success: 1}", "constraints.require_previous_success: 1 is not"),
        ("constraints: {catch_up_window: -5s}", "constraints.catch_up_window: '-5s' is not"),
        ("constraints: {max_expected_run_time: 0s}", "constraints.max_expected_run_time: '0s' is not longer than zero"),
        ("constraints: {max_expected_run_time: 2h, max_allowed_run_time: 1h}", "constraints.max_expected_run_time: "),
        ("constraints: {max_allowed_run_time: 1h}\nmax_runtime: 2h", "max_runtime: differs from"),
        ("constraints: {pre_run_hook: 'ftp://x/y'}", "constraints.pre_run_hook.url: 'ftp://x/y' is not a URL"),
        ("constraints: {pre_run_hook: 'file:///etc/passwd'}", "constraints.pre_run_hook.url: "),
        ("constraints: {pre_run_hook: 'https://'}", "constraints.pre_run_hook.url: "),
        ("constraints: {pre_run_hook: 'https://a b/'}", "constraints.pre_run_hook.url: "),
        ("constraints: {pre_run_hook: 'https://a:99999/'}", "constraints.pre_run_hook.url: "),
        ("constraints: {pre_run_hook: {}}", "constraints.pre_run_hook: is empty; give exactly one of url, url_env"),
        (f"constraints: {{pre_run_hook: {{url: '{URL}', url_env: X}}}}", "url and url_env are given together; give"),
        (f"constraints: {{pre_run_hook: {{url: '{URL}', timeout: -1s}}}}", "constraints.pre_run_hook.timeout: "),
        (f"constraints: {{pre_run_hook: {{url: '{URL}', timeout: 1h}}}}", "is not a duration from 10ms to 5m"),
        (f"constraints: {{pre_run_hook: {{url: '{URL}', on_error: ignore}}}}", "on_error: 'ignore' is not one of"),
        (f"constraints: {{post_run_hook: {{url: '{URL}', secret_env: 'A B'}}}}", "post_run_hook.secret_env: 'A B'"),
        (f"constraints: {{post_run_hook: {{url: '{URL}', secret_env: NOT_SET}}}}",
         "4: constraints.post_run_hook.secret_env: environment variable 'NOT_SET' is not set"),
        ("constraints: {pre_run_hook: {url_env: NOT_SET}}", "url_env: environment variable 'NOT_SET' is not set"),
        ("constraints: {pre_run_hook: {url_env: NO_URL}}", "url_env: environment variable 'NO_URL' does not hold"),
        ("constraints: {checks: [a b]}", "constraints.checks[0].job: "),
        ("constraints: {checks: [{timeout: 5s}]}", "constraints.checks[0].job: missing"),
        ("constraints: {recheck_on_retry: [max_concurrent_runs]}", "constraints.recheck_on_retry[0]: "),
        ("constraints: {recheck_on_retry: [checks]}", "constraints.recheck_on_retry: names checks, which is not set"),
        ("on_failure: {action: page}", "on_failure.action: 'page' is not one of"),
        ("on_failure: page", "on_failure.action: 'page' is not one of"),
        ("on_failure: {url: x}", "on_failure.action: missing"),
        ("on_failure: {action: webhook}", "on_failure.url: missing"),
        ("on_failure: {action: webhook, url: 'gopher://x'}", "on_failure.url: 'gopher://x' is not a URL"),
        ("on_failure: {action: trigger_job}", "on_failure.job: missing"),
        ("on_failure: {action: call}", "on_failure.job: missing"),
        ("on_failure: {action: trigger_job, job: x, payload: [1]}", "on_failure.payload: [1] is not"),
        ("on_failure: {action: trigger_job, job: x, delay: 5s}", "on_failure.delay: is not a parameter of trigger_job"),
        ("on_failure: skip", "on_failure.action: 'skip' is not allowed once the run has started; use one of"),
        ("on_success: wait", "on_success.action: 'wait' is not allowed once the run has started; use one of"),
        (f"on_success: {{action: webhook, url: '{URL}', then: skip}}", "on_success.then: is allowed only in"),
        ("on_late: {action: call, job: x}", "on_late: needs constraints.max_expected_run_time"),
        ("on_constraint_violation: skip", "on_constraint_violation: needs a constraint"),
        (MAX + "on_constraint_violation: {action: skip, delay: 5s}", "5: on_constraint_violation.delay: is not"),
        (MAX + "on_constraint_violation: {action: retry_later, delay: -1s}", "on_constraint_violation.delay: '-1s'"),
        (MAX + "on_constraint_violation: {action: retry_later, delay: 0s}", "on_constraint_violation.delay: "),
        (MAX + "on_constraint_violation: {action: wait, limit: 0s}", "on_constraint_violation.limit: '0s' is not"),
        (MAX + "on_constraint_violation: [skip, wait]", "on_constraint_violation[0]: decides about the run"),
        (MAX + f"on_constraint_violation: [{HOOK}, {HOOK}, skip, {HOOK}]", "on_constraint_violation[2]: decides"),
        (MAX + f"on_constraint_violation: {{action: webhook, url: '{URL}', then: webhook}}",
         "on_constraint_violation.then.action: 'webhook' is not an action that decides"),
        (MAX + f"on_constraint_violation: {{action: webhook, url: '{URL}', then: {{action: wait, then: skip}}}}",
         "on_constraint_violation.then.then: unknown field"),
        (MAX + f"on_constraint_violation: &a {{action: webhook, url: '{URL}', then: *a}}", "aliases"),
        (f"on_failure: [{', '.join([HOOK] * 17)}]", "on_failure: 17 given; at most 16 are allowed"),
        (f"on_failure: {{action: webhook, url: '{URL}', body: 'a $ b'}}", "body: has a $ that no name follows"),
        (f"on_failure: {{action: webhook, url: '{URL}', body: '$payload'}}", "uses the unknown variable $payload"),
        (f"on_failure: {{action: webhook, url: '{URL}', body: '{{}}', format: slack}}", "body: cannot be comb"),
        (f"on_failure: {{action: webhook, url: '{URL}', body: '{{\"a\": $job}}'}}", "body: does not make valid"),
        (f"on_failure: {{action: webhook, url: '{URL}', format: teams}}", "on_failure.format: 'teams' is not one of"),
        (f"on_failure: {{action: webhook, url: '{URL}', give_up_after: 0s}}", "on_failure.give_up_after: "),
        (f"on_failure: [{HOOK}, {{action: webhook, url_env: NOT_SET}}]", "on_failure[1].url_env: environment variable"),
    ],
)  # fmt: skip
def test_faults_name_place_field_and_value(text: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_URL", "nowhere")
    with pytest.raises(BadConfig) as caught:
        loaded(text)
    assert says in str(caught.value)
    assert "a.yaml:" in str(caught.value)


@pytest.mark.behaviour("SEC-5")
def test_a_password_in_a_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(BadConfig) as caught:
        loaded("on_failure: {action: webhook, url: 'https://me:hunter2@example.org/'}")
    assert "on_failure.url: must not contain credentials" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_body_over_http_has_the_same_faults() -> None:
    with pytest.raises(BadConfig, match=r"on_failure\.url: missing") as caught:
        read_job({"run": {"process": ["x"]}, "on_failure": {"action": "webhook"}, "constraints": {"x": 1}}, "nightly")
    assert "constraints.x: unknown field" in str(caught.value)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: il.Constraints(max_concurrent_runs=0), "constraints.max_concurrent_runs: 0"),
        (lambda: il.Constraints(max_expected_run_time="2h", max_allowed_run_time="1h"), "max_expected_run_time"),
        (lambda: il.Constraints(pre_run_hook="mailto:x"), "constraints.pre_run_hook.url: 'mailto:x'"),
        (lambda: il.Constraints(pre_run_hook=FIVE), "constraints.pre_run_hook: 5 is not a Hook"),
        (lambda: il.Constraints(checks=[FIVE]), "constraints.checks[0]: 5 is not a Check"),
        (lambda: il.Hook(timeout="1s"), "exactly one of url, url_env"),
        (lambda: il.Action(action=PAGE), "action: 'page' is not one of"),
        (lambda: il.Action(action="webhook"), "url: missing"),
        (lambda: il.Action(action="wait", then="skip"), "then: is not a parameter of wait"),
        (lambda: Job(id="a", on_failure="skip"), "on_failure.action: 'skip' is not allowed"),
    ],
)
def test_faults_in_python(make: Any, says: str) -> None:
    with pytest.raises(InterlockError) as caught:
        make()
    assert says in str(caught.value)


@pytest.mark.parametrize("kind", ["constraint", "action"])
def test_a_function_that_takes_no_notice_is_refused(app: il.App, kind: str) -> None:
    def function(run: str) -> None: ...

    with pytest.raises(il.BadHandler, match=f"{kind} 'disk': .*function must take 'notice'"):
        getattr(app, kind)("disk")(function)


def test_an_unknown_job_is_a_warning_and_a_missing_variable_a_fault_for_the_app_too(app: il.App) -> None:
    late = il.Action(action="webhook", url_env="NOT_SET")

    @app.job("work", constraints=il.Constraints(checks=["dsk"]), on_failure=late)
    def work() -> None: ...

    @app.constraint("disk")
    def disk(notice: il.Notice) -> bool:
        return bool(notice.run_id)

    declared = FromApp(target="a:app", definitions=app.definitions)
    with pytest.raises(BadConfig, match=r"job 'work': on_failure.url_env: environment variable 'NOT_SET' is not set"):
        load([], declared)
    warnings = load([put(JOB + "constraints: {checks: [dsk]}\non_failure: {action: call, job: disk}")], FromApp(
        target="a:app", definitions={"disk": app.definitions["disk"]}
    )).warnings  # fmt: skip
    assert list(warnings) == ["a.yaml:4: constraints.checks[0].job: 'dsk' is not declared here; did you mean 'disk'?"]
