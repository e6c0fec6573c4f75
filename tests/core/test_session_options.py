"""The options of a session: where they come from, what they may be, and that a run keeps those of its submit."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import interlock as il
from interlock.config.job_documents import read_job
from interlock.config.resolve import resolve
from interlock.error import BadConfig, BadDuration, BadValue
from interlock.interface.run_builder import new_run
from interlock.model.job import Job
from interlock.model.session import Drop, Mode, SessionOptions, effective
from interlock.wire.new_run import NewRun, check_new_run
from tests.core.machine import Machine

Some = dict[str, Any]
PATTERNS: dict[str, Some] = {
    "*": {"cap": 1, "debounce": 0.0},
    "chat:*": {"cap": 2, "mode": "interrupt"},
    "chat:room-*": {"cap": 3},
    "*:room-7xx": {"cap": 4},
}


def test_the_defaults() -> None:
    options = effective({}, None, None, None, "chat:1")
    assert options == SessionOptions()
    assert (options.mode, options.max_concurrent, options.debounce) == (Mode.QUEUE, 1, 0.8)
    assert (options.cap, options.drop, options.rate, options.burst) == (10, Drop.OLD, None, 1)


@pytest.mark.parametrize(
    ("key", "job", "sticky", "given", "expected"),
    [
        ("mail", None, None, None, {"cap": 1, "debounce": 0.0}),
        ("chat:1", None, None, None, {"cap": 2, "mode": Mode.INTERRUPT}),
        ("chat:room-1", None, None, None, {"cap": 3}),
        ("Chat:room-1", None, None, None, {"cap": 1, "debounce": 0.0}),
        ("x:room-7xx", None, None, None, {"cap": 4}),
        ("mail", {"cap": 5}, None, None, {"cap": 5, "debounce": 0.0}),
        ("mail", {"cap": 5, "drop": "new"}, {"cap": 6}, None, {"cap": 6, "debounce": 0.0, "drop": Drop.NEW}),
        ("mail", {"cap": 5}, {"cap": 6, "burst": 2}, {"cap": 7}, {"cap": 7, "debounce": 0.0, "burst": 2}),
        ("mail", None, None, {"debounce": "2s", "rate": "6/m"}, {"cap": 1, "debounce": 2.0, "rate": 0.1}),
        ("chat:1", {"mode": "queue"}, None, None, {"cap": 2}),
    ],
)
def test_a_later_source_overrides_an_earlier_one(
    key: str, job: Some | None, sticky: Some | None, given: Some | None, expected: Some
) -> None:
    assert effective(PATTERNS, job, sticky, given, key) == SessionOptions(**expected)


def test_of_two_patterns_of_one_length_the_first_counts() -> None:
    assert effective({"a*c": {"cap": 1}, "*bc": {"cap": 2}}, None, None, None, "abc").cap == 1


BAD: list[tuple[Some, str, object]] = [
    ({"cap": 0}, ".cap", 0),
    ({"cap": "many"}, ".cap", "many"),
    ({"cap": True}, ".cap", True),
    ({"max_concurrent": 0}, ".max_concurrent", 0),
    ({"max_concurrent": -1}, ".max_concurrent", -1),
    ({"mode": "stop"}, ".mode", "stop"),
    ({"drop": "all"}, ".drop", "all"),
    ({"debounce": -1}, ".debounce", -1),
    ({"debounce": "-1s"}, ".debounce", "-1s"),
    ({"debounce": "soon"}, ".debounce", "soon"),
    ({"rate": "0/s"}, ".rate", "0/s"),
    ({"rate": "0.0/m"}, ".rate", "0.0/m"),
    ({"rate": 0}, ".rate", 0),
    ({"rate": 1e-300}, ".rate", 1e-300),
    ({"rate": "0.000000001/d"}, ".rate", "0.000000001/d"),
    ({"burst": 0}, ".burst", 0),
    ({"moode": "queue"}, "", "moode"),
]


@pytest.mark.parametrize(("some", "below", "value"), BAD, ids=str)
def test_bad_options_are_refused_everywhere(some: Some, below: str, value: object) -> None:
    """In a submit from Python, in a message, in the settings, and in the definition of a job."""
    for field, make in (
        ("session_options", lambda: new_run("work", session="s", session_options=some)),  # type: ignore[arg-type]
        ("session_options", lambda: check_new_run(NewRun("work", b"{}", session="s", session_options=some))),
        ("sessions.chat:*", lambda: il.config.Settings(sessions={"chat:*": some})),
        ("sessions", lambda: Job(id="work", sessions=some)),
        ("sessions", lambda: il.App().job("work", sessions=some)(lambda: None)),  # type: ignore[arg-type]
    ):
        with pytest.raises((BadValue, BadDuration)) as caught:
            make()
        error: Any = caught.value
        assert (error.field, error.value) == (f"{field}{below}", value)
    with pytest.raises(BadConfig) as refused:
        read_job({"run": {"process": ["true"]}, "sessions": some}, "work")
    assert str(refused.value).startswith("sessions" + (below or ".moode") + ": ")
    if not below:
        assert "did you mean 'mode'?" in str(caught.value)
        assert "did you mean 'mode'?" in str(refused.value)


@pytest.mark.parametrize("key", ["", "x" * 513, "é" * 257])
def test_a_session_key_that_is_empty_or_too_long_is_refused(key: str) -> None:
    for make in (lambda: new_run("work", session=key), lambda: check_new_run(NewRun("work", b"{}", session=key))):
        with pytest.raises(BadValue) as caught:
            make()
        assert (caught.value.field, caught.value.value) == ("session", key)
    with pytest.raises(BadValue):
        il.config.Settings(sessions={key: {}})


def test_a_session_key_of_512_bytes_is_fine() -> None:
    check_new_run(NewRun("work", b"{}", session="é" * 256))


@pytest.mark.parametrize(("field", "value"), [("session_options", {"cap": 3}), ("stamp", 5.0)])
def test_options_without_a_session_are_refused(field: str, value: Any) -> None:
    for make in (
        lambda: new_run("work", **{field: value}),
        lambda: check_new_run(NewRun("w", b"{}", **{field: value})),
    ):
        with pytest.raises(BadValue, match="without session") as caught:
            make()
        assert caught.value.field == field


@pytest.mark.parametrize("stamp", [-1.0, float("nan"), 1e12])
def test_a_stamp_out_of_range_is_refused(stamp: float) -> None:
    with pytest.raises(BadValue) as caught:
        check_new_run(NewRun("work", b"{}", session="s", stamp=stamp))
    assert caught.value.field == "stamp"


def test_a_naive_stamp_is_refused() -> None:
    with pytest.raises(BadValue) as caught:
        new_run("work", session="s", stamp=datetime(2030, 1, 1))  # noqa: DTZ001 - it lacks a zone on purpose
    assert caught.value.field == "stamp"


def test_python_takes_values_of_python() -> None:
    sent = datetime(2030, 1, 1, tzinfo=UTC)
    options: il.SessionFields = {"mode": "interrupt", "debounce": timedelta(seconds=2), "rate": "30/m"}
    new = new_run("work", session="s", session_options=options, stamp=sent)
    assert new.session_options == {"mode": "interrupt", "debounce": 2.0, "rate": 0.5}
    assert new.stamp == sent.timestamp()


def test_a_run_keeps_what_its_submit_gave(machine: Machine) -> None:
    options = {"mode": "interrupt", "debounce": 2.0}
    both = machine.submit(session="r", session_options=options, stamp=5.0)
    stamped = machine.submit(session="s", stamp=6.0)
    neither = machine.submit(session="t")
    for _ in range(2):
        runs = machine.state.runs
        given = [(runs[one].session_facet.options, runs[one].session_facet.stamp) for one in (both, stamped, neither)]
        assert given == [(options, 5.0), (None, 6.0), (None, None)]
        machine.restart()


def test_a_job_has_options_for_its_sessions() -> None:
    app = il.App()

    @app.job("chat", sessions={"mode": "interrupt", "debounce": "2s"})
    async def chat() -> None:
        pass

    found = {"mode": Mode.INTERRUPT, "debounce": 2.0}
    assert app.definitions["chat"].job.sessions == found
    written = {"run": {"process": ["true"]}, "sessions": {"mode": "interrupt", "debounce": "2s"}}
    assert read_job(written, "work").sessions == found
    assert Job(id="work", version="").version == Job(id="work", sessions=None).version
    assert Job(id="work", sessions={"cap": 3}).version != Job(id="work").version


def test_the_settings_file_has_patterns(tmp_path: Path) -> None:
    path = tmp_path / "interlock.yaml"
    path.write_text('sessions:\n  "chat:*": {mode: interrupt, debounce: 2s, rate: 6/m}\n  "mail.*":\n    cap: 3\n')
    resolved = resolve({}, str(path), {})
    assert resolved.settings.sessions == {
        "chat:*": {"mode": Mode.INTERRUPT, "debounce": 2.0, "rate": 0.1},
        "mail.*": {"cap": 3},
    }
    assert resolved.sources["sessions"] == f"{path}:1"
    for text, says in (
        ('sessions:\n  "chat:*":\n    cap: 0\n', f"{path}:3: sessions.chat:*.cap: 0 is not"),
        ('sessions:\n  "chat:*": {caps: 1}\n', f"{path}:2: sessions.chat:*: 'caps' is not one of mode"),
        ("sessions: [1]\n", f"{path}:1: sessions: [1] is not a mapping"),
        ('sessions:\n  "chat:*": 5\n', f"{path}:2: sessions.chat:*: 5 is not a mapping"),
        ('sessions:\n  "": {cap: 5}\n', f"{path}:1: sessions: '' is not a text of 1 to 512 bytes"),
    ):
        path.write_text(text)
        with pytest.raises(BadValue) as caught:
            resolve({}, str(path), {})
        assert str(caught.value).startswith(says)
