"""What the documents on schedules and on jobs in files show holds, as somebody who follows them meets it."""

import re
from pathlib import Path

import msgspec
import pytest

import interlock as il
from interlock.config.documents import Faults, read
from interlock.config.sources import load
from interlock.model.guard import Action, Check, Constraints, Decision, Hook
from interlock.model.job import JOB_FIELDS, Job, Retry
from interlock.model.schedule.schedule import Schedule
from interlock.model.session import SessionOptions
from interlock.model.work import ProcessWork
from tests.docs.blocks import ROOT, of_language, run_shell
from tests.docs.test_services import file_of, followed
from tests.helpers.processes import wait_until
from tests.helpers.server import Server

SCHEDULES = "docs/schedules.md"
JOB_FILES = "docs/job-files.md"
PICTURE = ROOT / "docs" / "simulation.svg"
EXAMPLE = "examples/timetable.yaml"


@pytest.mark.behaviour("TIM-5", "TIM-7", "TIM-9", "TIM-10", "TIM-11", "TIM-4")
def test_the_document_on_schedules(folder: Path) -> None:
    said = run_shell(followed(SCHEDULES), folder)
    assert "fine: 2 jobs, 0 services, 0 groups and 0 lanes\n" in said, said
    assert re.search(r"^nightly-backup\tcron 0 2 \* \* \* Europe/Paris\t\d{4}-\S+T0[01]:00:00.000Z\t", said, re.M), said
    assert re.search(r"^\d{4}-\S+Z\ttick$", said, re.M), said
    assert "'0 0 31 2 *' never fires: there is no such day [bad_value]\n" in said, said
    # The gap in March, and the first of two 02:30 in October.
    assert re.findall(r"^\d{4}-03-\d\dT(\S+)$", said, re.M)[-2:] == ["01:00:00.000Z"] * 2, said
    assert re.findall(r"^\d{4}-10-\d\dT(\S+)$", said, re.M)[-2:] == ["00:30:00.000Z"] * 2, said
    assert "added\tjob\tslow\n" in said, said
    assert re.search(r"^slow:\d+\tslow\tskipped\t.*\tmissed: ", said, re.M), said
    # If one was going when the scheduler died, and its worker is not back in time, the next takes its place.
    assert re.search(r"^tick:\d+\t\w+\tcatch_up\t", said, re.M), said
    missed = r"^tick:\d+\tskipped\tschedule\t.*\tmissed: .* \(catch_up: latest\)$"
    assert re.search(missed, said, re.M), said
    assert re.findall(r"^(\w+)\tevery 1s\t\t.*\tpaused\t", said, re.M) == ["tick", "slow"], said
    assert re.search(r"^tick\tevery 1s\t\d{4}-\S+Z\t\w+\t\d+\t\tprocess\t", said, re.M), said
    created = re.findall(r"^created\t(nightly-backup:\d+)$", said, re.M)
    assert len(created) == 7, said
    assert re.findall(r"^existing\t(nightly-backup:\d+)$", said, re.M) == created, said
    assert "report | cron 0 6 * * mon Europe/Paris | python\n" in said, said
    assert "\n5 pages\nTrue False\n" in said, said
    assert '"code":"job_declared"' in said, said
    assert "\n\ttime to go\n" in said, said
    assert "job: 'reminder' is not defined" in said, said
    assert re.search(r"^interlock_schedules [1-9]", said, re.M), said
    assert (folder / "backup.tar.gz").stat().st_size > 0
    assert (folder / PICTURE.name).read_text() == PICTURE.read_text(), "copy the one that the document's command makes"


@pytest.mark.behaviour("TIM-12", "TIM-14", "EXE-2")
def test_the_document_on_jobs_in_files(folder: Path) -> None:
    said = run_shell(followed(JOB_FILES), folder)
    assert "fine: 3 jobs, 0 services, 0 groups and 0 lanes\n" in said, said
    assert re.search(r"^3\n2\nnull\n", said, re.M), said
    assert re.findall(r"\tinfo\tlogging in at port 2525 with (.*)$", said, re.M) == ["•••"] * 2, said
    assert "\twarning\tno answer from the server\n" in said, said
    assert "\tinfo\tsent to team@example.org\n" in said, said
    (shown,) = of_language(JOB_FILES, "text")
    assert f"{shown.text}exit code 2\n" in said, said
    assert "changed\tjob\tmail\nunchanged\tjob\tdisk\n" in said, said
    assert "\thello\n" in said, said
    schema = msgspec.json.decode((folder / "documents.schema.json").read_text())
    assert schema == msgspec.json.decode((ROOT / "docs" / "documents.schema.json").read_text())


def test_every_field_of_a_job_is_shown_with_its_default(folder: Path) -> None:
    written = folder / "fields.yaml"
    written.write_text(file_of(JOB_FILES, "fields.yaml"))
    (document,) = read([str(written)], Faults())
    assert set(document.values) == JOB_FIELDS.keys() - {"start_timeout"}, "that is of containers alone"
    named = set(re.findall(r"^  (?:# )?(\w+):", written.read_text(), re.M))
    assert named >= {*Schedule.__struct_fields__, *Constraints.__struct_fields__}
    (job,) = [one.job for one in load([str(written)]).jobs]
    bare = Job(id="everything", work=ProcessWork(command=("sleep", "1000")))
    differs = {name for name in bare.__struct_fields__ if getattr(bare, name) != getattr(job, name)}
    assert differs == {
        "schedule",
        "payload",
        "lane",
        "rate",
        "limit",
        "sessions",
        "deadline",
        "max_runtime",
        "retry",
        "work",
        "version",
        "constraints",
        "on_constraint_violation",
        "on_failure",
        "on_success",
        "on_late",
        "topic",
        "labels",
    }
    check_guards(job)
    assert job.sessions is not None
    assert SessionOptions(**job.sessions) == SessionOptions()
    assert set(job.sessions) == set(SessionOptions.__struct_fields__) - {"rate", "burst"}
    assert job is not None
    assert job.retry == Retry(max_retries=msgspec.structs.replace(job, retry=Retry()).max_retries)
    assert job.schedule == Schedule(cron="0 2 * * *", tz="Europe/Paris")
    assert isinstance(job.work, ProcessWork)
    assert job.work.env == {"PORT": "9000", "DEBUG": "true", "LANG": None}
    assert job.work.stdin


def check_guards(job: Job) -> None:
    """Check that the parts of constraints and actions have their defaults, besides those that must be given."""
    constraints, (violated,), (failed,) = (
        job.constraints,
        job.actions("on_constraint_violation"),
        job.actions("on_failure"),
    )
    before, after = constraints.pre_run_hook, constraints.post_run_hook
    assert isinstance(before, Hook)
    assert isinstance(after, Hook)
    assert before == Hook(url=before.url)
    assert after == Hook(url=after.url)
    assert constraints.checks == (Check(job="another"),)
    assert not constraints.require_previous_success
    assert not constraints.recheck_on_retry
    assert failed == Action(action="webhook", url=failed.url)
    assert violated.then == Decision(action="retry_later", limit="1h")
    assert [one.action for one in (*job.actions("on_success"), *job.actions("on_late"))] == ["call", "webhook"]


def test_the_example(folder: Path) -> None:
    for place in ("docs", "examples"):
        (folder / place).mkdir()
    (folder / "docs" / "only.md").touch()
    (folder / EXAMPLE).write_text((ROOT / EXAMPLE).read_text())
    server = Server(folder, str(folder / EXAMPLE), "--http", "local", "--drain", "0s", target=None)
    with server, il.Client(f"unix:{server.http_socket}") as client:
        assert [job.id for job in client.jobs()] == ["tick", "disk", "slow", "nightly-count"]
        for name in ("disk", "nightly-count"):
            assert client.trigger(name).wait("30s") is il.State.SUCCEEDED
        assert client.job_log("nightly-count")[0].output.split() == ["1"]
        wait_until(lambda: client.job_log("tick", 1)[0].state is il.State.SUCCEEDED, "it fires at its start")
