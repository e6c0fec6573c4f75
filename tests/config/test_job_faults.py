"""Jobs that are written wrongly: every fault is told, with its line."""

import os
from typing import Any

import pytest

import interlock as il
from interlock.config.documents import Faults, read
from interlock.config.job_documents import read_job
from interlock.config.sources import FromApp, build, load
from interlock.error import BadConfig
from interlock.model.schedule.schedule import instant
from tests.config.writing import fault, put, refused, without_rule
from tests.helpers.places import unprivileged

JOB = "kind: Job\nid: nightly\nrun: {process: [dump]}\n"
"""what a test adds begins on line 4"""
EVERY = "schedule.every: 0 is not"
LANE = "lane: 'a b' is not"


@pytest.mark.behaviour("TIM-3", "TIM-8", "TIM-12")
@pytest.mark.parametrize(
    ("schedule", "says"),
    [
        ("{}", "schedule: is empty; give exactly one of once, at, every, cron"),
        ("{once: false}", "schedule: is empty; give exactly one of once, at, every, cron"),
        ("{wait: 5s}", "schedule: is empty; give exactly one of once, at, every, cron"),
        ("{every: 5s, cron: '* * * * *'}", "schedule: every and cron are given together; give"),
        ("daily", "schedule: 'daily' is not"),
        ("{evry: 5s, every: 5s}", "schedule.evry: unknown field; did you mean 'every'?"),
        ("{once: maybe}", "schedule.once: 'maybe' is not"),
        ("{once: null, every: 5s}", "schedule.once: None is not"),
        ("{every: 0}", "schedule.every: 0 is not"),
        ("{every: 999ms}", "schedule.every: '999ms' is not"),
        ("{every: soon}", "schedule.every: 'soon' is not"),
        ("{every: [1]}", "schedule.every: [1] is not"),
        ("{every: 60s, wait: 60s}", "schedule.wait: '1m' is not"),
        ("{every: 60s, wait: 2m}", "schedule.wait: '2m' is not"),
        ("{every: 60s, wait: -1}", "schedule.wait: -1 is not"),
        ("{every: 60s, keep: true}", "schedule.keep: "),
        ("{every: 60s, tz: UTC}", "schedule.tz: "),
        ("{every: 60s, jitter: some}", "schedule.jitter: 'some' is not"),
        ("{every: 60s, catch_up: some}", "schedule.catch_up: 'some' is not"),
        ("{every: 60s, catch_up_max: -1}", "schedule.catch_up_max: -1 is not"),
        ("{every: 60s, catch_up_window: x}", "schedule.catch_up_window: 'x' is not"),
        ("{cron: 0 0 31 2 *}", "schedule.cron: '0 0 31 2 *' never fires"),
        ("{cron: 61 * * * *}", "schedule.cron: '61 * * * *' is not"),
        ("{cron: '* * * * * *'}", "schedule.cron: '* * * * * *' is not"),
        ("{cron: 5}", "schedule.cron: '5' is not"),
        ("{cron: [a]}", "schedule.cron: ['a'] is not"),
        ("{cron: '* * * * *', tz: Mars/Base}", "schedule.tz: 'Mars/Base' is not"),
        ("{cron: '* * * * *', tz: ../../etc/passwd}", "schedule.tz: '../../etc/passwd' is not"),
        ("{cron: '* * * * *', tz: [UTC]}", "schedule.tz: ['UTC'] is not"),
        ("{at: tomorrow}", "schedule.at: 'tomorrow' is not"),
        ("{at: [1]}", "schedule.at: [1] is not"),
        ("{at: 2030-01-01, wait: 5s}", "schedule.wait: "),
        ("{at: 2030-01-01, tz: Mars/Base}", "schedule.tz: 'Mars/Base' is not"),
    ],
)
def test_schedules_that_are_none(schedule: str, says: str) -> None:
    line = fault(f"{JOB}schedule: {schedule}\n")
    assert line.startswith("a.yaml:4: schedule")
    assert says in line


@pytest.mark.behaviour("TIM-12")
@pytest.mark.parametrize(
    ("added", "says"),
    [
        ("shedule: {every: 5s}", "shedule: unknown field; did you mean 'schedule'?"),
        ("restart: always", "restart: unknown field"),
        ("payload: 5", "payload: 5 is not"),
        ("payload: [a]", "payload: ['a'] is not"),
        ("payload: {a: 123456789012345678901}", "payload.a: a whole number beyond 64 bits is not"),
        ("payload: {a: [1e999]}", "payload.a[0]: inf is not"),
        ("lane: a b", "lane: 'a b' is not"),
        ("lane: [a]", "lane: ['a'] is not"),
        ("deadline: later", "deadline: 'later' is not"),
        ("deadline: 0", "deadline: 0 is not"),
        ("max_runtime: -1", "max_runtime: -1 is not"),
        ("max_runtime_per_attempt: often", "max_runtime_per_attempt: 'often' is not"),
        ("max_crashes: -1", "max_crashes: -1 is not"),
        ("topic: a b", "topic: 'a b' is not"),
        ("capabilities: network", "capabilities: 'network' is not"),
        ("risk_tags: [a b]", "risk_tags[0]: 'a b' is not"),
        ("requires: {}", "requires: {} is not"),
        ("sensitivity: high", "sensitivity: 'high' is not"),
        ("max_crashes: 123456789012345678901", "max_crashes: 123456789012345678901 is not"),
        ("grace: x", "grace: 'x' is not"),
        ("retry: 3", "retry: 3 is not"),
        ("retry: {max_retries: many}", "retry.max_retries: 'many' is not"),
        ("retry: {retries: 3}", "retry.retries: unknown field; did you mean 'max_retries'?"),
        ("retry: {jitter: 2}", "retry.jitter: 2 is not"),
        ("retry: {on: OSError}", "retry.on: 'OSError' is not"),
        ("retry: {never: [OSError, a b]}", "retry.never[1]: 'a b' is not"),
        ("constraints: 1", "constraints: 1 is not"),
        ("constraints: {max_concurrent_runs: 0}", "constraints.max_concurrent_runs: 0 is not"),
        (
            "constraints: {max_concurrent_run: 1}",
            "constraints.max_concurrent_run: unknown field; did you mean",
        ),
        ("constraints: {max_allowed_run: 2h}", "constraints.max_allowed_run: unknown field; did you mean"),
        ("env: {A: [b]}", "env.A: '…' is not"),
        ("env: {A=B: c}", "env: 'A=…' is not"),
        ("cwd: ''", "cwd: '' is not"),
        ("limits: {memory: lots}", "limits.memory: 'lots' is not"),
        ("limits: {files: 123456789012345678901}", "limits.files: 123456789012345678901 is not"),
        ("limits: {cpu: 10ms}", "limits.cpu: '10ms' is not"),
        ("stdin: maybe", "stdin: 'maybe' is not"),
        ("stdin:", "stdin: None is not"),
    ],
)
def test_fields_that_are_wrong(added: str, says: str) -> None:
    assert fault(f"{JOB}{added}\n").startswith(f"a.yaml:4: {says}")


@pytest.mark.behaviour("TIM-12", "EXE-2")
@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("", "1: run: missing"),
        ("run: {}", "3: run: is empty; give exactly one of process, shell, container, function, job"),
        (
            "run: {process: [a], shell: b}",
            "3: run: process and shell are given together; give",
        ),
        ("run: {container: {}}", "3: run.container.image: missing"),
        ("run: {container: A}", "3: run.container.image: 'A' is not"),
        ("run: {container: a:b:c}", "3: run.container.image: 'a:b:c' is not"),
        ("run: {container: {image: a, memory: x}}", "3: run.container.memory: 'x' is not"),
        ("run: {container: {image: a, cpus: 0}}", "3: run.container.cpus: 0 is not"),
        ("run: {container: {image: a, processes: 0}}", "3: run.container.processes: 0 is not"),
        ("run: {container: {image: a, pull: often}}", "3: run.container.pull: 'often' is not"),
        ("run: {container: {image: a, mounts: [x]}}", "3: run.container.mounts[0]: 'x' is not"),
        ("run: {container: {image: a, engine: x}}", "3: run.container.engine: unknown field"),
        ("run: {container: a}\ncwd: x", "4: cwd: only for process and shell"),
        ("run: {container: a}\nlimits: {}", "4: limits: only for process and shell"),
        ("run: {container: a}\nstart_timeout: 0s", "4: start_timeout: '0s' is not"),
        ("run: {process: [a]}\nstart_timeout: 1m", "4: start_timeout: only for container"),
        ("run: {proces: [a]}", "3: run.proces: unknown field; did you mean 'process'?"),
        ("run: {process: a b}", "3: run.process: 'a b' is not"),
        ("run: {process: []}", "3: run.process: [] is not"),
        ("run: {process: ['']}", "3: run.process: '' is not"),
        ("run:\n  process:\n  - a\n  - [b]", "6: run.process[1]: ['b'] is not"),
        ("run: {shell: ' '}", "3: run.shell: ' ' is not"),
        ("run: {shell: [a]}", "3: run.shell: ['a'] is not"),
        ("run: {function: tick}", "3: run.function: 'tick' is not"),
        ("run: {function: 'a:b'}\nenv: {}", "4: env: only for"),
        ("run: {function: 'a:b'}\ncwd: x", "4: cwd: only for"),
        ("run: {function: 'a:b'}\nlimits: {}", "4: limits: only for"),
        ("run: {function: 'a:b'}\nstdin: true", "4: stdin: only for"),
    ],
)
def test_ways_to_run_that_are_none(lines: str, says: str) -> None:
    assert fault(f"kind: Job\nid: nightly\n{lines}\n").startswith(f"a.yaml:{says}")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("lane: main", "a.yaml:1: id: missing"),
        ("id: a b", "a.yaml:2: id: 'a b' is not"),
        ("id: a/b", "a.yaml:2: id: 'a/b' is not"),
        ("id: [a]", "a.yaml:2: id: ['a'] is not"),
    ],
)
def test_names_that_are_none(line: str, says: str) -> None:
    assert fault(f"kind: Job\n{line}\nrun: {{shell: x}}\n") == says


@pytest.mark.behaviour("TIM-12")
def test_every_fault_of_every_file_is_told_at_once() -> None:
    put("""\
kind: Job
id: nightly
schedule:
  cron: 0 0 31 2 *
  tz: Nowhere
  wait: soon
  jitter: x
  catch_up: maybe
run: {process: [a], shell: b}
constraints: {max_concurent_runs: 2}
---
kind: Job
id: hourly
schedule:
  every: 1h
  cron: 0 * * * *
  catch_up_max: many
retry: {max_retries: -1, jitter: 7}
stdin: perhaps
""")
    put(JOB + "---\nkind: Service\nid: hourly\nrun: {process: [x]}\n", "b.yaml")
    put("kind: Job\nid: [\n", "c.yaml")
    lines = refused("a.yaml", "b.yaml", "c.yaml")
    assert lines[-1].startswith("c.yaml:3: not valid YAML (")
    assert lines[:-1] == [
        "16 faults in 3 files",
        "a.yaml:4: schedule.cron: '0 0 31 2 *' never fires: there is no such day",
        "a.yaml:5: schedule.tz: 'Nowhere' is not",
        "a.yaml:6: schedule.wait: 'soon' is not",
        "a.yaml:7: schedule.jitter: 'x' is not",
        "a.yaml:8: schedule.catch_up: 'maybe' is not",
        "a.yaml:9: run: process and shell are given together; "
        "give exactly one of process, shell, container, function, job",
        "a.yaml:10: constraints.max_concurent_runs: unknown field; did you mean 'max_concurrent_runs'?",
        "a.yaml:12: run: missing",
        "a.yaml:14: schedule: every and cron are given together; give exactly one of once, at, every, cron",
        "a.yaml:17: schedule.catch_up_max: 'many' is not",
        "a.yaml:18: retry.max_retries: -1 is not",
        "a.yaml:18: retry.jitter: 7 is not",
        "a.yaml:19: stdin: 'perhaps' is not",
        "b.yaml:2: id: 'nightly' is declared twice, first at a.yaml:2",
        "b.yaml:6: id: 'hourly' is declared twice, first at a.yaml:13",
    ]


@pytest.mark.behaviour("TIM-12")
def test_names_are_unique_over_files_and_the_app_jobs_and_services(app: il.App) -> None:
    app.job("mine")(_handler)
    app.service("web", process=["web"])
    put("kind: Job\nid: mine\nrun: {shell: x}\n---\nkind: Job\nid: web\nrun: {shell: x}\n")
    put("kind: Group\nid: mine\n", "b.yaml")
    with pytest.raises(BadConfig) as caught:
        load(["a.yaml", "b.yaml"], FromApp(definitions=app.definitions, services=app.services))
    assert str(caught.value).split("\n") == [
        "3 faults in 2 files",
        "a.yaml:2: id: 'mine' is declared twice, first at tests.config.test_job_faults._handler",
        f"a.yaml:6: id: 'web' is declared twice, first at {app.services[0].spot}",
        "b.yaml:2: id: 'mine' is declared twice, first at tests.config.test_job_faults._handler",
    ]


def _handler() -> None: ...


@pytest.mark.behaviour("TIM-3")
def test_in_strict_mode_a_warning_is_a_fault(app: il.App) -> None:
    put(JOB + "schedule: {cron: 0 2 * * *, wait: 10s}\n")
    with pytest.raises(BadConfig) as caught:
        load(["a.yaml"], strict=True)
    assert str(caught.value) == (
        "a.yaml:4: schedule.wait: has no effect beside cron, which says itself when to begin"
    )  # fmt: skip
    app.job("tick", schedule=il.cron("* * * * *", wait="1s"))(_handler)
    with pytest.raises(BadConfig, match=r"^tests.config.test_job_faults._handler: job 'tick': schedule.wait: "):
        load([], FromApp(definitions=app.definitions), strict=True)


@pytest.mark.behaviour("LAN-2")
def test_a_lane_that_is_not_declared_is_a_fault_where_the_lanes_are_known(app: il.App) -> None:
    put(JOB + "lane: reprots\n")
    app.job("tick", lane="gpu")(_handler)
    declared = FromApp(definitions=app.definitions)
    assert load(["a.yaml"], declared).jobs[0].job.lane == "reprots"
    with pytest.raises(BadConfig) as caught:
        load(["a.yaml"], declared, lanes=["main", "reports"])
    _, in_file, in_app = str(caught.value).split("\n")
    assert in_file.startswith("a.yaml:4: lane: 'reprots' is not declared; use one of main, reports")
    assert in_file.endswith("did you mean 'reports'?")
    assert in_app.startswith("tests.config.test_job_faults._handler: job 'tick': lane: 'gpu' is not declared")
    load(["a.yaml"], declared, lanes=["gpu", "reprots"])


def test_a_time_that_has_passed_is_a_fault_only_where_the_present_is_given(app: il.App) -> None:
    put(JOB + "schedule:\n  at: 2030-01-31T02:00:00Z\n")
    time = instant("2030-01-31T02:00:00Z", "at")
    app.job("tick", schedule=il.at(time))(_handler)
    assert len(load(["a.yaml"]).jobs) == 1

    def at(now: float) -> None:
        faults = Faults()
        build(read(["a.yaml"], faults), faults, FromApp(definitions=app.definitions), now)

    at(time - 1)
    for now in (time, time + 1):
        with pytest.raises(BadConfig) as caught:
            at(now)
        assert [without_rule(line) for line in str(caught.value).split("\n")[1:]] == [
            "a.yaml:5: schedule.at: '2030-01-31T02:00:00Z' is not",
            "tests.config.test_job_faults._handler: job 'tick': schedule.at: at 2030-01-31 02:00:00Z is not",
        ]


# ── files that are none ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("TIM-12")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        (JOB + "payload: &x {a: 1}", "a.yaml:4: anchors and aliases ('&', '*')"),
        (JOB + "schedule: {cron: * * * * *}", "a.yaml:4: anchors and aliases ('&', '*')"),
        (JOB + "payload: " + "[" * 30 + "]" * 30, "a.yaml:4: nested more than 20 deep"),
        (JOB.encode() + b"payload: {a: \xff}", "a.yaml:4: not UTF-8 text"),
        ("kind: Jop\nid: a", "a.yaml:1: kind: 'Jop' is unknown"),
    ],
)
def test_files_that_are_wrong(text: str | bytes, says: str) -> None:
    assert fault(text).startswith(says)


def test_a_billion_laughs_in_a_payload_are_refused_at_the_first() -> None:
    lines = ["  a: &a [x, x]"]
    lines += [f"  {after}: &{after} [*{before}, *{before}]" for before, after in zip("abc", "bcd", strict=True)]
    assert fault("\n".join([JOB + "payload:", *lines])).startswith("a.yaml:5: anchors and aliases")


def test_a_folder_that_may_not_be_read() -> None:
    put(JOB, "all/a.yaml")
    os.chmod("all", 0)
    os.mkdir("open", 0o755)
    try:
        with unprivileged():
            assert os.listdir("open") == []
            assert refused("open", "all") == ["all: cannot be read (Permission denied)"]
    finally:
        os.chmod("all", 0o700)


def test_a_folder_that_goes_away_or_cannot_be_one() -> None:
    os.symlink("loop", "loop")
    assert refused("gone", "loop") == [
        "2 faults in 2 files",
        "gone: cannot be read (No such file or directory)",
        "loop: cannot be read (Too many levels of symbolic links)",
    ]


# ── the body of a request ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("TIM-12")
@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"run": {"shell": "x"}, "lane": "a b", "schedule": {"every": 0}}, ["2 faults", EVERY, LANE]),
        ({"run": {"process": ["sleep", [5]]}}, ["run.process[1]: [5] is not"]),
        ({"run": {"shell": "x"}, "env": {"A": ["hunter2"]}}, ["env.A: '…' is not"]),
        ({"run": {"process": ["a"]}, "cwd": "below"}, ["cwd: 'below' is not"]),
        ({"run": {"function": "x.py:y"}}, ["run.function: 'x.py' is not"]),
        ({"run": {"shell": "x"}, "kind": "Service"}, ["kind: 'Service' is not"]),
        ({"run": {"shell": "x"}, "id": "other"}, ["id: 'other' is not"]),
        (
            {"rum": {"shell": "x"}, "deadline": "x"},
            [
                "3 faults",
                "rum: unknown field; did you mean 'run'?",
                "run: missing",
                "deadline: 'x' is not",
            ],
        ),
    ],
)  # fmt: skip
def test_bodies_that_are_wrong(body: dict[str, Any], says: list[str]) -> None:
    with pytest.raises(BadConfig) as caught:
        read_job(body, "mine")
    assert [without_rule(line) for line in str(caught.value).split("\n")] == says


def test_a_body_for_a_name_that_is_none() -> None:
    with pytest.raises(BadConfig, match=r"^id: 'a b' is not a name of letters"):
        read_job({"run": {"shell": "x"}}, "a b")
