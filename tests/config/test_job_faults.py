"""Jobs that are written wrongly: every fault is told, with its line."""

import os
from typing import Any

import pytest

import interlock as il
from interlock.config.documents import read
from interlock.config.faults import Faults
from interlock.config.job_documents import read_job
from interlock.config.sources import FromApp, build, load
from interlock.model.error import BadConfig
from interlock.model.schedule import instant
from tests.config.writing import fault, put, refused
from tests.helpers.places import unprivileged

JOB = "kind: Job\nid: nightly\nrun: {process: [dump]}\n"
"""what a test adds begins on line 4"""
DURATION = "a duration; use 800ms, 10s, 5m, 2h or 1d"
FIELDS = "minute, hour, day of month, month, day of week"
TIMES = "once, at, every, cron, tz, wait, jitter, catch_up, catch_up_window, catch_up_max, keep"
WHOLE = "a whole number from {} to 1,000,000,000"
EVERY = "schedule.every: 0 is not an interval of one second or more"
LANE = "lane: 'a b' is not a name of letters, digits, '_', '-' and '.', up to 64 long"
IN_WORKER = "not for a function, which runs inside a worker"


@pytest.mark.behaviour("TIM-3", "TIM-8", "TIM-12")
@pytest.mark.parametrize(
    ("schedule", "says"),
    [
        ("{}", "schedule: [] is not exactly one of once, at, every, cron"),
        ("{once: false}", "schedule: [] is not exactly one of once, at, every, cron"),
        ("{wait: 5s}", "schedule: [] is not exactly one of once, at, every, cron"),
        ("{every: 5s, cron: '* * * * *'}", "schedule: ['every', 'cron'] is not exactly one of once, at, every, cron"),
        ("daily", f"schedule: 'daily' is not a mapping of {TIMES}"),
        ("{evry: 5s, every: 5s}", "schedule: 'evry' is not a field of it; did you mean 'every'?"),
        ("{once: maybe}", "schedule.once: 'maybe' is not true, or left out; the time until then is 'wait'"),
        ("{once: null, every: 5s}", "schedule.once: None is not a value; leave it out for the default"),
        ("{every: 0}", "schedule.every: 0 is not an interval of one second or more"),
        ("{every: 999ms}", "schedule.every: '999ms' is not an interval of one second or more"),
        ("{every: soon}", f"schedule.every: 'soon' is not {DURATION}"),
        ("{every: [1]}", f"schedule.every: [1] is not {DURATION}"),
        ("{every: 60s, wait: 60s}", "schedule.wait: '60s' is not less than the interval (1m)"),
        ("{every: 60s, wait: 2m}", "schedule.wait: '2m' is not less than the interval (1m)"),
        ("{every: 60s, wait: -1}", "schedule.wait: -1 is not a duration of zero or more"),
        ("{every: 60s, keep: true}", "schedule.keep: True is not true or false, and true only for at"),
        ("{every: 60s, tz: UTC}", "schedule.tz: 'UTC' is not for every, which goes by elapsed time"),
        ("{every: 60s, jitter: some}", f"schedule.jitter: 'some' is not {DURATION}"),
        ("{every: 60s, catch_up: some}", "schedule.catch_up: 'some' is not one of none, latest, all"),
        ("{every: 60s, catch_up_max: -1}", "schedule.catch_up_max: -1 is not a whole number from 0 to 10,000"),
        ("{every: 60s, catch_up_window: x}", f"schedule.catch_up_window: 'x' is not {DURATION}"),
        ("{cron: 0 0 31 2 *}", "schedule.cron: '0 0 31 2 *' is not a cron expression that can ever fire"),
        ("{cron: 61 * * * *}", "schedule.cron: '61 * * * *' is not a cron expression: its minute '61' cannot be read"),
        ("{cron: '* * * * * *'}", f"of 5 fields ({FIELDS}): it has 6 fields"),
        ("{cron: 5}", f"schedule.cron: '5' is not a cron expression of 5 fields ({FIELDS}): it has 1 field"),
        ("{cron: [a]}", "schedule.cron: ['a'] is not a text"),
        ("{cron: '* * * * *', tz: Mars/Base}", "schedule.tz: 'Mars/Base' is not a time zone like Europe/Paris or UTC"),
        ("{cron: '* * * * *', tz: ../../etc/passwd}", "schedule.tz: '../../etc/passwd' is not a time zone"),
        ("{cron: '* * * * *', tz: [UTC]}", "schedule.tz: ['UTC'] is not a text"),
        ("{at: tomorrow}", "schedule.at: 'tomorrow' is not a time like 2030-01-31T02:00:00Z"),
        ("{at: [1]}", "schedule.at: [1] is not a time like 2030-01-31T02:00:00Z"),
        ("{at: 2030-01-01, wait: 5s}", "schedule.wait: '5s' is not for at, which has its time already"),
        ("{at: 2030-01-01, tz: Mars/Base}", "schedule.tz: 'Mars/Base' is not a time zone like Europe/Paris or UTC"),
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
        ("shedule: {every: 5s}", "'shedule' is not a field of a Job; did you mean 'schedule'?"),
        ("restart: always", "'restart' is not a field of a Job"),
        ("payload: 5", "payload: 5 is not a mapping of arguments"),
        ("payload: [a]", "payload: ['a'] is not a mapping of arguments"),
        ("payload: {a: 123456789012345678901}", "payload.a: a whole number beyond 64 bits is not JSON"),
        ("payload: {a: [1e999]}", "payload.a[0]: inf is not JSON (not a finite number)"),
        ("lane: a b", "lane: 'a b' is not a name of letters, digits, '_', '-' and '.', up to 64 long"),
        ("lane:", "lane: None is not a value; leave it out for the default"),
        ("lane: [a]", "lane: ['a'] is not a text"),
        ("deadline: later", f"deadline: 'later' is not {DURATION}"),
        ("deadline: 0", "deadline: 0 is not longer than zero"),
        ("max_runtime: -1", "max_runtime: -1 is not a duration of zero or more"),
        ("max_runtime_per_attempt: often", "max_runtime_per_attempt: 'often' is not true or false"),
        ("max_crashes: -1", f"max_crashes: -1 is not {WHOLE.format(0)}"),
        ("max_crashes: 123456789012345678901", f"max_crashes: 123456789012345678901 is not {WHOLE.format(0)}"),
        ("grace: x", f"grace: 'x' is not {DURATION}"),
        ("retry: 3", "retry: 3 is not a mapping of max_retries, initial_delay, multiplier, max_delay, jitter"),
        ("retry: {max_retries: many}", f"retry.max_retries: 'many' is not {WHOLE.format(0)}"),
        ("retry: {retries: 3}", "retry: 'retries' is not a field of it; did you mean 'max_retries'?"),
        ("retry: {jitter: 2}", "retry.jitter: 2 is not a number from 0 to 1"),
        ("constraints: 1", "constraints: 1 is not a mapping of max_concurrent_runs"),
        ("constraints: {max_concurrent_runs: 0}", f"constraints.max_concurrent_runs: 0 is not {WHOLE.format(1)}"),
        (
            "constraints: {max_concurrent_run: 1}",
            "constraints: 'max_concurrent_run' is not a field of it; did you mean",
        ),
        ("constraints: {max_allowed_run_time: 2h}", "constraints: 'max_allowed_run_time' is not a field of it"),
        ("env: {A: [b]}", "env.A: '…' is not a text, or null to take the variable away"),
        ("env: {A=B: c}", "env: 'A=…' is not the name of a variable"),
        ("cwd: ''", "cwd: '' is not the path of a folder"),
        ("limits: {memory: lots}", "limits.memory: 'lots' is not a number of bytes like 512KiB or 32MiB"),
        ("limits: {files: 123456789012345678901}", f"limits.files: 123456789012345678901 is not {WHOLE.format(1)}"),
        ("limits: {cpu: 10ms}", "limits.cpu: 0.01 is not one second or more"),
        ("stdin: maybe", "stdin: 'maybe' is not true or false"),
        ("stdin:", "stdin: None is not true or false"),
    ],
)
def test_fields_that_are_wrong(added: str, says: str) -> None:
    assert fault(f"{JOB}{added}\n").startswith(f"a.yaml:4: {says}")


@pytest.mark.behaviour("TIM-12", "EXE-2")
@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("", "1: run: missing, but required"),
        ("run: {}", "3: run: [] is not exactly one of process, shell, function"),
        (
            "run: {process: [a], shell: b}",
            "3: run: ['process', 'shell'] is not exactly one of process, shell, function",
        ),
        ("run: {container: a}", "3: run: 'container' is not a field of it"),
        ("run: {proces: [a]}", "3: run: 'proces' is not a field of it; did you mean 'process'?"),
        ("run: {process: a b}", "3: run.process: 'a b' is not a list of program and arguments"),
        ("run: {process: []}", "3: run.process: [] is not a list of program and arguments"),
        ("run: {process: ['']}", "3: run.process: '' is not the name of a program"),
        ("run:\n  process:\n  - a\n  - [b]", "6: run.process[1]: ['b'] is not a text"),
        ("run: {shell: ' '}", "3: run.shell: ' ' is not a text for the shell to read"),
        ("run: {shell: [a]}", "3: run.shell: ['a'] is not a text"),
        ("run: {function: tick}", "3: run.function: 'tick' is not of the form module:name or path/to/file.py:name"),
        ("run: {function: 'a:b'}\nenv: {}", f"4: env: {IN_WORKER}"),
        ("run: {function: 'a:b'}\ncwd: x", f"4: cwd: {IN_WORKER}"),
        ("run: {function: 'a:b'}\nlimits: {}", f"4: limits: {IN_WORKER}"),
        ("run: {function: 'a:b'}\nstdin: true", f"4: stdin: {IN_WORKER}"),
    ],
)
def test_ways_to_run_that_are_none(lines: str, says: str) -> None:
    assert fault(f"kind: Job\nid: nightly\n{lines}\n").startswith(f"a.yaml:{says}")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("lane: main", "a.yaml:1: id: missing, but required"),
        ("id: a b", "a.yaml:2: id: 'a b' is not a name of letters, digits, '_', '-' and '.', up to 128 long"),
        ("id: a/b", "a.yaml:2: id: 'a/b' is not a name of letters, digits, '_', '-' and '.', up to 128 long"),
        ("id: [a]", "a.yaml:2: id: ['a'] is not a text"),
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
        "a.yaml:4: schedule.cron: '0 0 31 2 *' is not a cron expression that can ever fire: there is no such day",
        "a.yaml:5: schedule.tz: 'Nowhere' is not a time zone like Europe/Paris or UTC",
        f"a.yaml:6: schedule.wait: 'soon' is not {DURATION}",
        f"a.yaml:7: schedule.jitter: 'x' is not {DURATION}",
        "a.yaml:8: schedule.catch_up: 'maybe' is not one of none, latest, all",
        "a.yaml:9: run: ['process', 'shell'] is not exactly one of process, shell, function",
        "a.yaml:10: constraints: 'max_concurent_runs' is not a field of it; did you mean 'max_concurrent_runs'?",
        "a.yaml:12: run: missing, but required",
        "a.yaml:14: schedule: ['every', 'cron'] is not exactly one of once, at, every, cron",
        "a.yaml:17: schedule.catch_up_max: 'many' is not a whole number from 0 to 10,000",
        f"a.yaml:18: retry.max_retries: -1 is not {WHOLE.format(0)}",
        "a.yaml:18: retry.jitter: 7 is not a number from 0 to 1",
        "a.yaml:19: stdin: 'perhaps' is not true or false",
        "b.yaml:2: id: 'nightly' is there twice, first at a.yaml:2",
        "b.yaml:6: id: 'hourly' is there twice, first at a.yaml:13",
    ]


@pytest.mark.behaviour("TIM-12")
def test_names_are_unique_over_files_and_the_app_jobs_and_services() -> None:
    app = il.App()
    app.job("mine")(_handler)
    app.service("web", process=["web"])
    put("kind: Job\nid: mine\nrun: {shell: x}\n---\nkind: Job\nid: web\nrun: {shell: x}\n")
    put("kind: Group\nid: mine\n", "b.yaml")
    with pytest.raises(BadConfig) as caught:
        load(["a.yaml", "b.yaml"], FromApp(definitions=app.definitions, services=app.services))
    assert str(caught.value).split("\n") == [
        "3 faults in 2 files",
        "a.yaml:2: id: 'mine' is there twice, first at tests.config.test_job_faults._handler",
        f"a.yaml:6: id: 'web' is there twice, first at {app.services[0].spot}",
        "b.yaml:2: id: 'mine' is there twice, first at tests.config.test_job_faults._handler",
    ]


def _handler() -> None: ...


@pytest.mark.behaviour("TIM-3")
def test_in_strict_mode_a_warning_is_a_fault() -> None:
    put(JOB + "schedule: {cron: 0 2 * * *, wait: 10s}\n")
    with pytest.raises(BadConfig) as caught:
        load(["a.yaml"], strict=True)
    assert str(caught.value) == (
        "a.yaml:4: schedule.wait: has no effect beside cron, which says itself when to begin"
    )  # fmt: skip
    app = il.App()
    app.job("tick", schedule=il.cron("* * * * *", wait="1s"))(_handler)
    with pytest.raises(BadConfig, match=r"^tests.config.test_job_faults._handler: job 'tick': schedule.wait: "):
        load([], FromApp(definitions=app.definitions), strict=True)


def test_a_time_that_has_passed_is_a_fault_only_where_the_present_is_given() -> None:
    put(JOB + "schedule:\n  at: 2030-01-31T02:00:00Z\n")
    time = instant("2030-01-31T02:00:00Z", "at")
    app = il.App()
    app.job("tick", schedule=il.at(time))(_handler)
    assert len(load(["a.yaml"]).jobs) == 1

    def at(now: float) -> None:
        faults = Faults()
        build(read(["a.yaml"], faults), faults, FromApp(definitions=app.definitions), now)

    at(time - 1)
    for now in (time, time + 1):
        with pytest.raises(BadConfig) as caught:
            at(now)
        assert str(caught.value).split("\n")[1:] == [
            "a.yaml:5: schedule.at: '2030-01-31T02:00:00Z' is not in the future; where the job has run before, "
            "'interlock up' takes it all the same",
            "tests.config.test_job_faults._handler: job 'tick': schedule.at: at 2030-01-31 02:00:00Z is not in the "
            "future; where the job has run before, 'interlock up' takes it all the same",
        ]


# ── files that are none ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("TIM-12")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        (JOB + "payload: &x {a: 1}", "a.yaml:4: anchors and aliases ('&', '*') are not used here"),
        (JOB + "schedule: {cron: * * * * *}", "a.yaml:4: anchors and aliases ('&', '*') are not used here; put quotes"),
        (JOB + "payload: " + "[" * 30 + "]" * 30, "a.yaml:4: nested more than 20 deep"),
        (JOB.encode() + b"payload: {a: \xff}", "a.yaml:4: not UTF-8 text"),
        ("kind: Jop\nid: a", "a.yaml:1: kind: 'Jop' is not one of Service, Group, Job; did you mean 'Job'?"),
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
        ({"run": {"process": ["sleep", 5]}}, ["run.process[1]: 5 is not a text"]),
        ({"run": {"process": ["a"]}, "cwd": "below"}, ["cwd: 'below' is not an absolute path"]),
        ({"run": {"function": "x.py:y"}}, ["run.function: 'x.py' is not an absolute path"]),
        ({"run": {"shell": "x"}, "kind": "Service"}, ["kind: 'Service' is not 'Job', or left out"]),
        ({"run": {"shell": "x"}, "id": "other"}, ["id: 'other' is not 'mine', or left out"]),
        (
            {"rum": {"shell": "x"}, "deadline": "x"},
            [
                "3 faults",
                "'rum' is not a field of a Job; did you mean 'run'?",
                f"deadline: 'x' is not {DURATION}",
                "run: missing, but required",
            ],
        ),
    ],
)  # fmt: skip
def test_bodies_that_are_wrong(body: dict[str, Any], says: list[str]) -> None:
    with pytest.raises(BadConfig) as caught:
        read_job(body, "mine")
    assert str(caught.value).split("\n") == says


def test_a_body_for_a_name_that_is_none() -> None:
    with pytest.raises(BadConfig, match=r"^id: 'a b' is not a name of letters"):
        read_job({"run": {"shell": "x"}}, "a b")
