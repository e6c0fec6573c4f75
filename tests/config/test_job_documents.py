"""Jobs that are declared in files: what is made of each field."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

import interlock as il
from interlock.config.job_documents import read_job
from interlock.config.sources import FromApp, load
from interlock.model.guard import Constraints
from interlock.model.job import ExecutorKind, Job, Retry, Sensitivity
from interlock.model.schedule.schedule import CatchUp, Schedule
from interlock.model.work import FunctionWork, JobWork, Limits, ProcessWork
from tests.config.writing import put

JOB = "kind: Job\nid: nightly\nrun: {process: [dump]}\n"


def read(text: str) -> Job:
    (one,) = load([put(text)]).jobs
    return one.job


def process(job: Job) -> ProcessWork:
    assert isinstance(job.work, ProcessWork)
    return job.work


@pytest.mark.behaviour("TIM-12")
def test_the_smallest_there_is() -> None:
    assert read(JOB) == Job(id="nightly", work=ProcessWork(command=("dump",)))


@pytest.mark.behaviour("TIM-12", "EXE-2")
def test_every_field_is_taken() -> None:
    job = read("""\
kind: Job
id: nightly.backup
schedule: {cron: "0 2 * * *", tz: Europe/Paris, jitter: 5m, catch_up: all, catch_up_window: 1d, catch_up_max: 7}
run: {process: [pg_dump, --jobs, 4, --verbose, yes]}
payload: {day: yesterday, tables: [a, b], deep: {x: null, y: 1.5}}
lane: cron
retry: {max_retries: 3, initial_delay: 10s, multiplier: 3, max_delay: 5m, jitter: 0.5, on: [OSError], never: [a.B]}
deadline: 3h
max_runtime: 90m
max_runtime_per_attempt: true
max_crashes: 1
grace: 30s
topic: backup.nightly
capabilities: [network, "fs:write"]
risk_tags: [pii]
requires: [vault]
sensitivity: secret
constraints: {max_concurrent_runs: 2}
env: {PGHOST: db, PORT: 5432, HOME: null}
cwd: below
limits: {memory: 2GiB, cpu: 10m, files: 100, processes: 5}
stdin: false
""")
    assert job == Job(
        id="nightly.backup",
        schedule=Schedule(
            cron="0 2 * * *",
            tz="Europe/Paris",
            jitter=300.0,
            catch_up=CatchUp.ALL,
            catch_up_window=86400.0,
            catch_up_max=7,
        ),
        work=ProcessWork(
            command=("pg_dump", "--jobs", "4", "--verbose", "yes"),
            env={"PGHOST": "db", "PORT": "5432", "HOME": None},
            cwd=os.path.abspath("below"),
            stdin=False,
            limits=Limits(memory=2 * 2**30, cpu=600.0, files=100, processes=5),
        ),
        payload={"day": "yesterday", "tables": ["a", "b"], "deep": {"x": None, "y": 1.5}},
        lane="cron",
        retry=Retry(
            max_retries=3,
            initial_delay=10.0,
            multiplier=3,
            max_delay=300.0,
            jitter=0.5,
            on=(OSError,),
            never=("a.B",),
        ),
        deadline=10800.0,
        max_runtime=5400.0,
        max_runtime_per_attempt=True,
        max_crashes=1,
        grace=30.0,
        topic="backup.nightly",
        capabilities=("network", "fs:write"),
        risk_tags=("pii",),
        requires=("vault",),
        sensitivity=Sensitivity.SECRET,
        constraints=Constraints(max_concurrent_runs=2),
    )


@pytest.mark.behaviour("EXE-2")
def test_a_shell_reads_a_text_only_where_one_is_asked_for() -> None:
    assert process(read("kind: Job\nid: a\nrun: {shell: 'ls | wc -l'}")).command == ("/bin/sh", "-c", "ls | wc -l")
    assert process(read("kind: Job\nid: a\nrun: {process: ['ls | wc -l']}")).command == ("ls | wc -l",)


@pytest.mark.parametrize(
    ("function", "found"),
    [("reports.daily:run", "reports.daily:run"), ("lib/jobs.py:run", "{}/all/lib/jobs.py:run"), ("/a.py:b", "/a.py:b")],
)
def test_a_function_is_found_from_the_folder_of_the_file(function: str, found: str) -> None:
    put(f"kind: Job\nid: a\nrun: {{function: '{function}'}}", "all/a.yaml")
    (one,) = load(["all"]).jobs
    assert one.job.work == FunctionWork(function=found.format(os.getcwd()))


@pytest.mark.behaviour("TIM-12")
def test_a_job_runs_the_function_of_a_job_of_the_app(app: il.App) -> None:
    @app.job("report", processes=True, lane="cron")
    def report(pages: int, key: il.Secret) -> int:
        return pages

    source = FromApp(definitions=app.definitions)
    text = "kind: Job\nid: nightly\nrun: {job: report}\npayload: {pages: 3, key: k}\n"
    (one,) = load([put(text)], source).jobs
    assert one.job == Job(
        id="nightly",
        work=JobWork(job="report"),
        payload={"pages": 3, "key": {"$secret": "k"}},
        executor=ExecutorKind.PROCESS,
        secrets=("key",),
    )
    for wrong, says in [
        (text.replace("report", "repotr"), "a.yaml:3: run.job: 'repotr' is not"),
        (text.replace("pages: 3", "pages: x"), "a.yaml:4: payload of 'nightly': argument 'pages'"),
        (text.replace("payload", "schedule: {every: 1h}\nenv"), "a.yaml:5: env: only for process, shell and container"),
        (text + "---\nkind: Job\nid: two\nrun: {job: nightly}\n", "a.yaml:8: run.job: 'nightly' is not"),
    ]:
        with pytest.raises(il.BadConfig) as caught:
            load([put(wrong)], source)
        assert says in str(caught.value)


@pytest.mark.behaviour("TIM-1")
@pytest.mark.parametrize(
    ("schedule", "made"),
    [
        ("{once: true, wait: 3d}", Schedule(once=True, wait=259200.0)),
        ("{at: 2030-01-31T02:00:00Z, keep: true}", Schedule(at=1896055200.0, keep=True)),
        ("{at: 2030-01-31 02:00, tz: Europe/Paris}", Schedule(at=1896051600.0, tz="Europe/Paris")),
        ("{at: 2030-01-31}", Schedule(at=1896048000.0)),
        ("{at: 1896048000}", Schedule(at=1896048000.0)),
        ("{every: 60s, wait: 10s}", Schedule(every=60.0, wait=10.0)),
        ("{every: 60, cron: null, once: false, tz: ~}", Schedule(every=60.0)),
        ("{cron: '*/5 * * * *'}", Schedule(cron="*/5 * * * *")),
        ("{cron: 0 9 * * 1-5, tz: America/New_York}", Schedule(cron="0 9 * * 1-5", tz="America/New_York")),
        ("null", None),
    ],
)
def test_schedules(schedule: str, made: Schedule | None) -> None:
    assert read(f"{JOB}schedule: {schedule}\n").schedule == made


@pytest.mark.behaviour("TIM-12", "TIM-13")
def test_jobs_are_in_the_order_in_which_they_are_declared() -> None:
    put("---\n".join(f"kind: Job\nid: {name}\nrun: {{shell: x}}\n" for name in ("z", "y")), "all/b.yaml")
    put("kind: Job\nid: x\nrun: {shell: x}\n---\nkind: Service\nid: web\nrun: {process: [web]}\n", "all/a.yml")
    put("# first\n\nkind: Job\nid: w\nrun: {shell: x}\n", "all/c.yaml")
    loaded = load(["all"])
    assert [(one.job.id, one.source) for one in loaded.jobs] == [
        ("x", "all/a.yml:2"),
        ("z", "all/b.yaml:2"),
        ("y", "all/b.yaml:6"),
        ("w", "all/c.yaml:4"),
    ]
    assert [child.name for child in loaded.children] == ["web"]


@pytest.mark.behaviour("TIM-14")
def test_a_job_has_another_version_only_if_something_else_is_said() -> None:
    first = read(JOB + "deadline: 60s\n")
    assert read("# moved down\n\n" + JOB + "deadline: 1m\n").version == first.version
    assert read(JOB + "deadline: 61s\n").version != first.version


@pytest.mark.behaviour("TIM-3")
def test_wait_beside_cron_is_a_warning_with_its_line() -> None:
    put(JOB + "schedule:\n  cron: 0 2 * * *\n  wait: 10s\n")
    loaded = load(["a.yaml"])
    assert loaded.warnings == [
        "a.yaml:6: schedule.wait: has no effect beside cron, which says itself when to begin"
    ]  # fmt: skip
    assert [one.job.id for one in loaded.jobs] == ["nightly"]


def test_what_an_app_has_is_warned_of_too(app: il.App) -> None:
    app.job("tick", schedule=il.cron("* * * * *", wait="1s"))(_tick)
    assert load([], FromApp(definitions=app.definitions)).warnings == [
        "tests.config.test_job_documents._tick: job 'tick': schedule.wait: has no effect beside cron, which says "
        "itself when to begin"
    ]


def _tick() -> None: ...


# ── the body of a request ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_body_is_read_as_a_document_is() -> None:
    body: dict[str, Any] = {"schedule": {"every": "1m"}, "run": {"process": ["ls", "-l"]}, "cwd": "/tmp/../srv"}
    job = read_job(body, "list")
    assert job == Job(
        id="list", schedule=Schedule(every=60.0), work=ProcessWork(command=("ls", "-l"), cwd="/srv"), version=""
    )
    assert read_job({"kind": "Job", "id": "list", **body}, "list") == job
    assert list(body) == ["schedule", "run", "cwd"]


@pytest.mark.parametrize(
    ("given", "text"),
    [(9000, "9000"), (-1, "-1"), (1.5, "1.5"), (9000.0, "9000.0"), (True, "true"), (False, "false"), ("x", "x")],
)
def test_a_text_may_be_given_as_a_number_or_a_truth_value_in_a_file_and_over_http(given: Any, text: str) -> None:
    body = {"run": {"process": ["serve", given]}, "env": {"PORT": given, "GONE": None}}
    over_http = read_job(body, "serve")
    assert read(f"kind: Job\nid: serve\n{json.dumps(body)[1:-1]}".replace("}, ", "}\n")) == over_http
    assert process(over_http).env == {"PORT": text, "GONE": None}
    assert process(over_http).command == ("serve", text)


def test_a_folder_may_have_the_settings_beside_the_jobs() -> None:
    put(JOB, "all/a.yaml")
    put("workers: 2\n", "all/interlock.yaml")
    Path("all/deep").mkdir()
    assert [one.job.id for one in load(["all"]).jobs] == ["nightly"]
