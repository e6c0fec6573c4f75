"""`interlock init`, and the files of the project that it writes."""

from pathlib import Path
from typing import Annotated

from interlock.cli.draw.tables import plain, present
from interlock.cli.shared.options import JsonOption, argument
from interlock.error import BadUse, BadValue

FILES = {
    "interlock.yaml": """\
# Settings of every command in this folder; `interlock config` lists all of them.
app: jobs:app
files: [schedule.yaml, policy.yaml]
""",
    "jobs.py": '''\
"""The jobs of this project."""

import asyncio

import interlock as il

app = il.App()


@app.job("report", retry=il.Retry(max_retries=2), max_runtime="10m")
async def report(ctx: il.Context, pages: int = 3) -> str:
    for page in range(1, pages + 1):
        await asyncio.sleep(0.2)
        ctx.log(f"page {page} written")
        ctx.progress(100 * page / pages)
    return f"{pages} pages"


@app.job("payment")
def payment(to: str, cents: int) -> str:
    return f"paid {cents} cents to {to}"
''',
    "schedule.yaml": """\
# When the report runs by itself; `interlock timetable` shows the next times.
kind: Job
id: nightly-report
schedule: {cron: "0 2 * * *", tz: Europe/Paris}
run: {job: report}
retry: {max_retries: 3}
constraints: {max_concurrent_runs: 1}
""",
    "policy.yaml": """\
# What may run; `interlock policy test` checks the cases below.
kind: Policy
id: project
default_decision: deny
rules:
- {id: reports, match: {topics: [report, nightly-report]}, decision: allow}
- {id: payments, match: {topics: [payment]}, decision: require_approval, reason: a person agrees to each payment}
cases:
- {name: a report, job: report, expect: allow, rule: reports}
- {name: a payment, job: payment, expect: require_approval, rule: payments}
""",
    "test_jobs.py": '''\
"""Tests of the jobs, on virtual time: run them with pytest."""

from datetime import UTC, datetime

from interlock import testing
from jobs import app, payment, report


def test_a_report_has_its_pages() -> None:
    run = app.test(report.call(pages=2))
    assert run.result == "2 pages"
    assert [line.text for line in run.lines] == ["page 1 written", "page 2 written"]


def test_the_report_runs_every_night() -> None:
    with testing.scheduler(app, files=["schedule.yaml"], start="2030-01-01T00:00:00Z") as scheduler:
        scheduler.advance("1d")
        assert scheduler.fired("nightly-report") == [datetime(2030, 1, 1, 1, 0, tzinfo=UTC)]


def test_a_payment_needs_another_person() -> None:
    with testing.scheduler(app, files=["policy.yaml"]) as scheduler:
        run = scheduler.submit(payment.call("ada", 100), actor="ben")
        assert run.state() == "approval_required"
        scheduler.approve(run.id, "it is due", actor="eve")
        assert run.result() == "paid 100 cents to ada"
''',
}
NEXT = ("interlock check", "interlock up", "interlock submit report --wait", "interlock timetable", "pytest")


def command(
    folder: Annotated[str, argument("FOLDER", "Folder of the project; it is made if it does not exist.")] = ".",
    json: JsonOption = False,
) -> None:
    """Write a small project that runs: jobs, a schedule, a policy, and tests."""
    home = Path(folder)
    if taken := [name for name in FILES if (home / name).exists()]:
        raise BadUse("FOLDER", f"{home} already has {', '.join(taken)}; choose another folder: interlock init FOLDER")
    try:
        home.mkdir(parents=True, exist_ok=True)
        for name, text in FILES.items():
            with (home / name).open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise BadValue("FOLDER", folder, f"a folder to write to: {error.strerror}") from None
    steps = [*([f"cd {home}"] if folder != "." else []), *NEXT]
    paths = [str(home / name) for name in FILES]
    present(
        json,
        lambda: {"files": paths, "next": steps},
        lambda: paths,
        lambda: "\n".join([f"wrote {plain(', '.join(paths))}", "next, try:", *(f"  {plain(step)}" for step in steps)]),
    )
