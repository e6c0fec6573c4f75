"""Timers of systemd: calendars, spans, the service beside them."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from interlock.error import BadValue
from interlock.model.work import ProcessWork
from tests.importers.reading import Written, imported, schedule_of

SERVICE = "[Service]\nExecStart=/usr/bin/backup --all\n"


def timer(lines: str, service: str = SERVICE) -> Written:
    return imported("systemd", f"[Timer]\n{lines}\n{service}", tz="Europe/Paris")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("minutely", "* * * * *"),
        ("hourly", "0 * * * *"),
        ("daily", "0 0 * * *"),
        ("weekly", "0 0 * * 1"),
        ("monthly", "0 0 1 * *"),
        ("quarterly", "0 0 1 1,4,7,10 *"),
        ("semiannually", "0 0 1 1,7 *"),
        ("yearly", "0 0 1 1 *"),
        ("*:0/15", "*/15 * * * *"),
        ("*:5/20", "5,25,45 * * * *"),
        ("Mon..Fri *-*-* 09:00", "0 9 * * 1-5"),
        ("Mon..Wed,Fri 8..18/2:30", "30 8,10,12,14,16,18 * * 1-3,5"),
        ("Sat,Sunday 10:00:00", "0 10 * * 0,6"),
        ("Sat..Sun", "0 0 * * 0,6"),
        ("Mon *-*-1..7 12:00", "0 12 * * MON#1"),
        ("*-*-01/10", "0 0 */10 * *"),
        ("05-01", "0 0 1 5 *"),
        ("*-1/3-1 0:0", "0 0 1 */3 *"),
        ("12:00..18", "0-18 12 * * *"),
        ("*-*~01 23:30", "30 23 L * *"),
        ("*-02~1", "0 0 L 2 *"),
    ],
)
def test_a_calendar(text: str, expected: str) -> None:
    for zone in ("Europe/Paris", "Asia/Tokyo"):
        (job,) = timer(f"OnCalendar={text}" + f" {zone}" * (zone != "Europe/Paris")).jobs.values()
        assert schedule_of(job) == {"cron": expected, "tz": zone, "catch_up": "none"}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("OnCalendar=2039-1-2 3:4:05 UTC", {"at": 2177550245.0, "catch_up": "none"}),
        ("OnCalendar=daily UTC\nPersistent=true", {"cron": "0 0 * * *", "catch_up_window": 36500 * 86400.0}),
        ("OnCalendar=daily UTC\nRandomizedDelaySec=1h 30min",
         {"cron": "0 0 * * *", "catch_up": "none", "jitter": 5400.0}),
        ("OnUnitActiveSec=90", {"every": 90.0}),
        ("OnBootSec=15min\nOnUnitActiveSec=1d", {"every": 86400.0, "wait": 900.0}),
        ("OnBootSec=2h\nOnUnitActiveSec=1h", {"every": 3600.0}),
        ("OnCalendar=hourly\nOnCalendar=\nOnCalendar=daily UTC", {"cron": "0 0 * * *", "catch_up": "none"}),
    ],
)  # fmt: skip
def test_times(lines: str, expected: dict[str, Any]) -> None:
    (job,) = timer(lines).jobs.values()
    assert schedule_of(job) == expected
    assert job.max_retries == 0


@pytest.mark.parametrize(
    "line",
    [
        "OnBootSec=5min", "OnActiveSec=5min", "OnStartupSec=5min", "OnUnitInactiveSec=1h", "OnUnitActiveSec=5 parsecs",
        "OnUnitActiveSec=1ms", "OnCalendar=*:*:30", "OnCalendar=*:*:*", "OnCalendar=2027..2029-*-* 1:00",
        "OnCalendar=2020-01-01", "OnCalendar=*-*~03", "OnCalendar=Mon *-*~01", "OnCalendar=Fri *-*-13",
        "OnCalendar=sometimes", "OnCalendar=25:00", "OnCalendar=12", "OnCalendar=daily Mars/North",
        "OnCalendar=a b c d", "OnCalendar=Mon-Fri 10:00", "OnCalendar=Monx 10:00:00:00",
    ],
)  # fmt: skip
def test_a_time_that_stays_a_comment(line: str) -> None:
    found = timer(line)
    assert found.jobs == {}
    assert f"# -: {line}\n" in found.text
    assert "# NOT CARRIED OVER: " in found.kept


@pytest.mark.parametrize(
    ("service", "command"),
    [
        ("ExecStart=/bin/x 'a b' 100%%", ("/bin/x", "a b", "100%")),
        ("ExecStart=/bin/x a \\\n  b", ("/bin/x", "a", "b")),
        ("ExecStart=-/bin/x", ("/bin/sh", "-c", "{ /bin/x || true; }")),
        ("ExecStart=/bin/x\nExecStart=/bin/y", ("/bin/sh", "-c", "/bin/x && /bin/y")),
    ],
)
def test_a_command(service: str, command: tuple[str, ...]) -> None:
    (job,) = timer("OnCalendar=daily", f"[Service]\n{service}\n").jobs.values()
    assert isinstance(job.work, ProcessWork)
    assert (job.work.command, job.work.stdin) == (command, False)


def test_variables_are_replaced_as_systemd_does() -> None:
    service = (
        "[Service]\nEnvironment=\"A=b  c\" D='e f'\nExecStart=/usr/bin/printf '<%%s>' x${A}y $D z$A '${D}\"`' $$A\n"
    )
    (job,) = timer("OnCalendar=daily", service).jobs.values()
    assert isinstance(job.work, ProcessWork)
    assert job.work.env == {"A": "b  c", "D": "e f"}
    ended = subprocess.run(job.work.command, env={"A": "b  c", "D": "e f"}, capture_output=True, text=True, check=True)
    assert ended.stdout == '<xb  cy><e><f><z$A><e f"`><$A>'


@pytest.mark.parametrize(
    "service",
    ["", "[Service]\nUser=x\n", "[Service]\nExecStart=/bin/x %h\n", "[Service]\nExecStart=@/bin/x y\n",
     "[Service]\nExecStart=/bin/x\nWorkingDirectory=~\n",
     "[Service]\nExecStart=/bin/x 'a\n", "[Service]\nExecStart=/bin/x ; /bin/y\n"],
)  # fmt: skip
def test_a_service_that_stays_a_comment(service: str) -> None:
    found = timer("OnCalendar=daily", service)
    assert found.jobs == {}
    assert "# NOT CARRIED OVER: " in found.kept


def test_the_service_beside_the_timer(tmp_path: Path) -> None:
    (tmp_path / "dump.service").write_text(
        "[Unit]\nDescription=x\n[Service]\nType=oneshot\nUser=shop\nWorkingDirectory=/srv/shop\nExecStart=/bin/dump\n"
    )
    text = (
        "[Unit]\nDescription=Dump the shop\n[Timer]\n# a comment\nOnCalendar=daily\nOnCalendar=Mon 12:00\n"
        "Unit=dump.service\nAccuracySec=1us\n[Install]\nWantedBy=timers.target\n"
    )
    found = imported("systemd", text, tmp_path / "nightly.timer")
    assert list(found.jobs) == ["nightly", "nightly-2"]
    work = found.jobs["nightly"].work
    assert isinstance(work, ProcessWork)
    assert (work.command, work.cwd) == (("/bin/dump",), "/srv/shop")
    for note in ("User=shop: not carried over", "AccuracySec=1us: not carried over", "Description: Dump the shop"):
        assert f"# {note}\n" in found.text


def test_the_output_of_systemctl_cat() -> None:
    found = imported(
        "systemd", f"# /etc/systemd/system/dump.timer\n[Timer]\nOnCalendar=daily\n\n# /x/y.service\n{SERVICE}"
    )
    assert list(found.jobs) == ["dump"]


def test_a_file_without_a_timer() -> None:
    with pytest.raises(BadValue):
        imported("systemd", SERVICE)
