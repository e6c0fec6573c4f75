"""Whatever a foreign file holds, the written file can be read; `imported` reads it and counts its jobs."""

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from interlock.model.error import BadValue
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


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=100))
def test_a_payload_is_what_it_was(text: str) -> None:
    values = {"text": text, "list": [text, 1, 1.5, None, True], text: {text: text}}
    found = imported("celery_beat", f"beat_schedule = {{'e': dict(task='a.b', schedule=5, kwargs={values!r})}}")
    assert found.jobs["e"].payload == values
