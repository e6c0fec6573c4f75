"""Whatever a foreign file holds, the written file can be read; `imported` reads it and counts its jobs."""

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from interlock.error import BadValue
from tests.importers.reading import imported

TEXTS = {
    "crontab": st.tuples(st.sampled_from(["0 0 * * * ", "@daily ", "A=", "# ", ""]), st.text()).map("".join),
    "celery_beat": st.text().map(
        lambda text: f"beat_schedule = {{{text!r}: {{'task': 'a.b', 'schedule': 5, 'kwargs': {{'x': {text!r}}}}}}}"
    ),
    "apscheduler": st.text().map(lambda text: f"s.add_job('a:b', 'cron', hour={text!r}, id={text!r})"),
    "systemd": st.text().map(lambda text: f"[Timer]\nOnCalendar={text}\n[Service]\nExecStart={text}\nUser={text}\n"),
}


@pytest.mark.parametrize("kind", TEXTS)
@given(data=st.data())
def test_any_text(kind: str, data: st.DataObject) -> None:
    imported(kind, data.draw(TEXTS[kind]))


@pytest.mark.parametrize("kind", TEXTS)
@given(text=st.text())
@example("\ufeff[Timer]\nOnCalendar=daily\n")
def test_any_text_at_all(kind: str, text: str) -> None:
    with suppress(BadValue):  # it is not even Python, or a timer
        imported(kind, text)


ODD = [
    "x", "f()", "None", "-1", "0", "1.5", "'x'", "[]", "{}", "{1: 2}", "b'x'", "1j", "...", "True", "10**9", "9" * 400,
    "'" + "9" * 5000 + "'", "timedelta(-1)", "datetime.max", "datetime(1, 1, 1, tzinfo='x')", "1e400", "not x",
    "lambda: 0", "[*x]", "{**x}", "f(*x, **y)", "x[0]", "1 / 0", "'a' * 9", "f'{x}'", "{[]: 1}",
]  # fmt: skip
SLOTS = [
    ("apscheduler", f"from m import f\ns.add_job(f, 'interval', minutes=1, {name}={{}})")
    for name in ("minutes", "args", "kwargs", "id", "coalesce", "misfire_grace_time", "max_instances", "jitter",
                 "timezone", "start_date", "next_run_time", "trigger", "func")
] + [
    ("apscheduler", "from m import f\ns.add_job(f, 'cron', hour={})"),
    ("apscheduler", "from m import f\ns.add_job(f, 'date', run_date={})"),
    ("apscheduler", "from m import f\ns.add_job(f, CronTrigger.from_crontab({}))"),
    ("apscheduler", "s = Scheduler(job_defaults={})\ns.add_job('a:b', 'interval', minutes=1)"),
    ("celery_beat", "beat_schedule = {}"),
    ("celery_beat", "beat_schedule[{}] = {{'task': 'a.b', 'schedule': 5}}"),
    ("celery_beat", "timezone = {}\nbeat_schedule = {{'e': {{'task': 'a.b', 'schedule': crontab()}}}}"),
    ("celery_beat", "s.add_periodic_task({}, f.s())"),
    ("celery_beat", "s.add_periodic_task(5, {})"),
] + [
    ("celery_beat", f"beat_schedule = {{{{'e': {{{{'task': 'a.b', 'schedule': 5, '{name}': {{}}}}}}}}}}")
    for name in ("task", "schedule", "args", "kwargs", "options", "relative")
]  # fmt: skip


@pytest.mark.parametrize(("kind", "text"), SLOTS)
def test_odd_values(kind: str, text: str) -> None:
    for odd in ODD:
        with suppress(BadValue):
            imported(kind, text.format(odd))


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=100))
def test_a_payload_is_what_it_was(text: str) -> None:
    values = {"text": text, "list": [text, 1, 1.5, None, True], text: {text: text}}
    found = imported("celery_beat", f"beat_schedule = {{'e': dict(task='a.b', schedule=5, kwargs={values!r})}}")
    assert found.jobs["e"].payload == values
