"""Crontabs: what each line becomes, and fire times that equal those of cron."""

import subprocess
from datetime import UTC, datetime
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim, CronSimError
from hypothesis import given
from hypothesis import strategies as st

from interlock.model.schedule.cron import cron_of
from interlock.model.work import ProcessWork
from tests.core.test_cron import expressions
from tests.importers.reading import imported, schedule_of


@pytest.mark.parametrize(
    ("lines", "system", "job_id", "schedule", "command"),
    [
        ("0 2 * * * backup --all", False, "backup", {"cron": "0 2 * * *"}, "backup --all"),
        ("  5\t4 *  * sun  /usr/bin/x.sh", False, "x.sh", {"cron": "5\t4 *  * sun"}, "/usr/bin/x.sh"),
        ("@daily x", False, "x", {"cron": "@daily"}, "x"),
        ("@every_minute x", False, "x", {"cron": "* * * * *"}, "x"),
        ("-*/5 * * * * x", False, "x", {"cron": "*/5 * * * *"}, "x"),
        ("0 0 13 * 5 x", False, "x", {"cron": "0 0 13 * 5"}, "x"),
        ("17 * * * * root cd / && run-parts /etc/cron.hourly", True, "run-parts", {"cron": "17 * * * *"},
         "cd / && run-parts /etc/cron.hourly"),
        ("@weekly\troot\tx", True, "x", {"cron": "@weekly"}, "x"),
        ("CRON_TZ=Asia/Tokyo\n0 9 * * * x", False, "x", {"cron": "0 9 * * *", "tz": "Asia/Tokyo"}, "x"),
        ("RANDOM_DELAY=10\n0 9 * * * x", False, "x", {"cron": "0 9 * * *", "jitter": 600.0}, "x"),
        (r"0 0 * * * tar $(date +\%F)", False, "tar", {"cron": "0 0 * * *"}, "tar $(date +%F)"),
        ("0 0 * * * A=1 test -x y || z", False, "test", {"cron": "0 0 * * *"}, "A=1 test -x y || z"),
    ],
)  # fmt: skip
def test_a_line(lines: str, system: bool, job_id: str, schedule: dict[str, Any], command: str) -> None:
    found = imported("crontab", lines + "\n", system=system)
    ((name, job),) = found.jobs.items()
    assert (name, schedule_of(job), job.max_retries) == (job_id, schedule, 0)
    assert isinstance(job.work, ProcessWork)
    assert (job.work.command, job.work.stdin) == (("/bin/sh", "-c", command), False)
    assert f"{lines.splitlines()[-1].split()[-1]}" in found.kept
    assert ("root" in found.kept) == system


@pytest.mark.parametrize(
    "line",
    ["@reboot x", "61 * * * * x", "* * * *", "nonsense", "* * * * *", "@hourly", "0 0 31 2 * x", "0~5 * * * * x"],
)
def test_a_line_that_stays_a_comment(line: str) -> None:
    found = imported("crontab", f"{line}\n0 0 * * * fine\n")
    assert list(found.jobs) == ["fine"]
    assert f"# -:1: {line}\n# NOT CARRIED OVER: " in found.text


def test_the_environment_counts_for_the_lines_below() -> None:
    found = imported(
        "crontab",
        "0 0 * * * first\nMAILTO=ops@example.org\nSHELL = /bin/bash\nHOME='/srv/shop'\nGREETING = \"hello 50%  \"\n"
        "# Dump the shop\n0 1 * * * second\n\n0 2 * * * second\n",
        tz="Europe/Paris",
    )
    first, second, third = found.jobs.values()
    assert isinstance(first.work, ProcessWork)
    assert isinstance(second.work, ProcessWork)
    assert first.work.env == {}
    assert second.work.env == {"SHELL": "/bin/bash", "HOME": "/srv/shop", "GREETING": "hello 50%  "}
    assert (second.work.command, second.work.cwd) == (("/bin/bash", "-c", "second"), "/srv/shop")
    assert (second.id, third.id) == ("second", "second-2")
    assert "# -:2: MAILTO=ops@example.org: " in found.text
    assert "# -:7: 0 1 * * * second\n# Dump the shop\nkind: Job\n" in found.text
    assert second.schedule is not None
    assert second.schedule.tz == "Europe/Paris"


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ("cat%a%b", "a\nb\n"),
        ("cat%", ""),
        ("cat%a%", "a\n"),
        ("cat%%a", "\na\n"),
        (r"cat%100\% \d%INPUT%x", "100% \\d\nINPUT\nx\n"),
        (r"printf '\\'; cat%a", "\\a\n"),
        ("cat # all%it's $HOME", "it's $HOME\n"),
    ],
)
def test_percent_is_the_input_of_a_command(line: str, printed: str) -> None:
    (job,) = imported("crontab", f"0 0 * * * {line}\n").jobs.values()
    assert isinstance(job.work, ProcessWork)
    assert subprocess.run(job.work.command, capture_output=True, text=True, check=True).stdout == printed


@given(
    expression=expressions,
    tz=st.sampled_from(["UTC", "Asia/Tokyo", "Asia/Kathmandu", "America/Phoenix"]),  # where clocks stay as they are
    start=st.integers(10**9, 2**31),
)
def test_fire_times_are_those_of_cron(expression: str, tz: str, start: int) -> None:
    found = imported("crontab", f"{expression} command\n", tz=tz)
    begin = datetime.fromtimestamp(start, ZoneInfo(tz))
    try:
        expected = [at.astimezone(UTC) for at in islice(CronSim(expression, begin), 5)]
    except CronSimError:
        expected = []
    if not found.jobs:
        assert not expected or "never fires" in found.kept
        return
    schedule = found.jobs["command"].schedule
    assert schedule is not None
    assert schedule.cron is not None
    cron, at, times = cron_of(schedule.cron, schedule.zone), float(start), []
    for _ in expected:
        at = cron.after(at)
        times.append(datetime.fromtimestamp(at, UTC))
    assert times == expected
