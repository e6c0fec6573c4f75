"""What is wrong with a request is said in one line, under a stable code, and nothing comes of it."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.conftest import sound
from tests.helpers.http import Answer, Http, Raw, head
from tests.helpers.places import clean_folder
from tests.helpers.server import Server

RUNS = "/api/v1/runs"
BATCH = "/api/v1/runs/batch"
LIMIT = 64 * 1024
"""bytes of a body that the small server takes"""


def body(**fields: Any) -> dict[str, Any]:
    return {"job": "echo"} | fields


def nested(depth: int) -> bytes:
    return b'{"job": "echo", "payload": {"value": ' + b"[" * depth + b"]" * depth + b"}}"


def check(answer: Answer, status: int, code: str, *says: str) -> None:
    problem = answer.json
    assert (answer.status, answer.code) == (status, code), problem
    assert set(problem) == {"type", "title", "status", "detail", "code"}
    assert problem["type"] == f"urn:interlock:problem:{code}"
    assert problem["status"] == status
    assert len(problem["detail"].splitlines()) == 1
    assert len(problem["detail"]) < 400
    for text in says:
        assert text in problem["detail"]


BODIES: list[tuple[str, Any, int, str, tuple[str, ...]]] = [
    (RUNS, body(playload={}), 400, "unknown_field", ("'playload'", "did you mean 'payload'?")),
    (RUNS, body(zzzzzz=1), 400, "unknown_field", ("'zzzzzz'",)),
    (RUNS, body(**{"a\nb": 1}), 400, "unknown_field", (r"'a\nb'",)),
    (RUNS, {}, 400, "missing_field", ("job",)),
    (RUNS, {"job": 5}, 400, "bad_value", ("job", "5")),
    (RUNS, {"job": None}, 400, "bad_value", ("job",)),
    (RUNS, {"job": ""}, 400, "bad_value", ("job", "''")),
    (RUNS, {"job": "no spaces"}, 400, "bad_value", ("job", "'no spaces'")),
    (RUNS, {"job": "ecko"}, 400, "unknown_job", ("job", "'ecko'", "did you mean 'echo'?")),
    (RUNS, {"job": "x" * 129}, 400, "bad_value", ("job",)),
    (RUNS, {"job": "echo\n"}, 400, "unknown_job", ("job", r"'echo\n'")),
    (RUNS, body(payload=[1]), 400, "bad_value", ("payload",)),
    (RUNS, body(payload={"velue": 1}), 400, "bad_payload", ("'velue'", "did you mean 'value'?")),
    (RUNS, {"job": "add"}, 400, "bad_payload", ("'left'", "missing")),
    (RUNS, {"job": "add", "payload": {"left": "one"}}, 400, "bad_payload", ("'left'",)),
    (RUNS, body(payload={"value": 2**64}), 400, "not_json", ("payload.value",)),
    (RUNS, body(payload={"value": "x" * 1_100_000}), 413, "payload_too_large", ("payload", "1,048,576")),
    (RUNS, body(tenant="a b"), 400, "bad_value", ("tenant", "'a b'")),
    (RUNS, body(tenant="red\n"), 400, "bad_value", ("tenant", r"'red\n'")),
    (RUNS, body(lane="main\n"), 400, "bad_value", ("lane", r"'main\n'")),
    (RUNS, body(lane=["main"]), 400, "bad_value", ("lane",)),
    (RUNS, body(labels={"two words": "x"}), 400, "bad_value", ("labels",)),
    (RUNS, body(labels={"team": 5}), 400, "bad_value", ("labels",)),
    (RUNS, body(labels={f"n{number}": "" for number in range(17)}), 400, "bad_value", ("labels",)),
    (RUNS, body(priority="high"), 400, "bad_value", ("priority", "'high'")),
    (RUNS, body(session=""), 400, "bad_value", ("session", "''")),
    (RUNS, body(session="x" * 513), 400, "bad_value", ("session",)),
    (RUNS, body(session="é" * 257), 400, "bad_value", ("session: ", "512 bytes")),
    (RUNS, body(session_options={"cap": 3}), 400, "bad_value", ("session_options", "without session")),
    (RUNS, body(stamp=5), 400, "bad_value", ("stamp", "without session")),
    (RUNS, body(session="s", stamp="soon"), 400, "bad_value", ("stamp", "'soon'")),
    (RUNS, body(session="s", session_options=[1]), 400, "bad_value", ("session_options",)),
    (
        RUNS,
        body(session="s", session_options={"moode": "queue"}),
        400,
        "bad_value",
        ("session_options: 'moode'", "did you mean 'mode'?"),
    ),
    *(
        (RUNS, body(session="s", session_options={name: value}), 400, code, (f"session_options.{name}: {value!r}",))
        for name, value, code in (
            ("cap", 0, "bad_value"),
            ("cap", None, "bad_value"),
            ("mode", "stop", "bad_value"),
            ("drop", "all", "bad_value"),
            ("debounce", "-1s", "bad_duration"),
            ("debounce", -1, "bad_duration"),
            ("max_concurrent", 0, "bad_value"),
            ("rate", "0/s", "bad_value"),
            ("rate", "0.000000001/d", "bad_value"),
            ("rate", 1e-300, "bad_value"),
        )
    ),
    (RUNS, body(idempotency_key=""), 400, "bad_value", ("idempotency_key",)),
    (RUNS, body(idempotency_key="x" * 257), 400, "bad_value", ("idempotency_key",)),
    (RUNS, body(delay="soon"), 400, "bad_duration", ("delay", "'soon'", "10s")),
    (RUNS, body(delay=-1), 400, "bad_value", ("delay", "-1")),
    (RUNS, body(delay=True), 400, "bad_value", ("delay", "True")),
    (RUNS, body(delay="9999999d"), 400, "bad_duration", ("delay", "'9999999d'")),
    (RUNS, body(deadline="5"), 400, "bad_duration", ("deadline", "'5'")),
    (RUNS, body(deadline=1e11), 400, "bad_value", ("deadline",)),
    (RUNS, body(at="now"), 400, "bad_value", ("at", "'now'")),
    (RUNS, body(at=-1), 400, "bad_value", ("at", "-1")),
    (RUNS, body(at=1e12), 400, "bad_value", ("at",)),
    (RUNS, body(at=1e9, delay="1s"), 400, "bad_value", ("delay", "at")),
    (RUNS, body(at=1e9, occurrence=1e9), 400, "bad_value", ("at", "occurrence")),
    (RUNS, body(at=2e9, deadline=0), 400, "bad_value", ("deadline",)),
    (RUNS, b"", 400, "bad_json", ("body",)),
    (RUNS, b"{", 400, "bad_json", ("body",)),
    (RUNS, b'{"job": "echo"} {}', 400, "bad_json", ("body",)),
    (RUNS, b"null", 400, "bad_value", ("body", "null")),
    (RUNS, b'["echo"]', 400, "bad_value", ("body", "array")),
    (RUNS, b'{"job": "echo", "payload": {"value": NaN}}', 400, "bad_json", ("body",)),
    (RUNS, b'{"job": "echo", "payload": {"value": Infinity}}', 400, "bad_json", ("body",)),
    (RUNS, b'{"job": "echo", "payload": {"value": 1e999}}', 400, "bad_value", ("payload", "out of range")),
    (RUNS, b'{"job": "echo", "delay": 1e999}', 400, "bad_value", ("delay", "out of range")),
    (RUNS, b'{"job": "echo", "payload": {"value": ' + b"9" * 10_000 + b"}}", 400, "bad_value", ("payload",)),
    (RUNS, b'{"job": "echo", "payload": {"value": "\xff"}}', 400, "bad_json", ("body", "utf-8")),
    (RUNS, b'{"job": "\xff"}', 400, "bad_json", ("body", "utf-8")),
    (RUNS, b'{"job": "echo", "payload": {"value": "\\ud800"}}', 400, "bad_json", ("body",)),
    (RUNS, b'{"job": "echo", "session": "\\udc00\\ud800"}', 400, "bad_json", ("body",)),
    (RUNS, b'{"job": "echo", "payload": {"value": "\xed\xa0\x80"}}', 400, "bad_json", ("body",)),
    (RUNS, b'\xef\xbb\xbf{"job": "echo"}', 400, "bad_json", ("body",)),
    (RUNS, nested(300), 400, "not_json", ("payload", "nested deeper than 200")),
    (RUNS, nested(200_000), 400, "bad_json", ("body", "recursion")),
    (RUNS, b'{"job":' * 200_000, 400, "bad_value", ("job",)),
    # The first fault is in a field, and what comes behind it is no JSON: both are the sender's.
    (RUNS, b'{"job": 5, "payload": ', 400, "bad_value", ("job",)),
    (RUNS, b'{"job": 5, "job": "echo"}', 400, "bad_value", ("job",)),
    (BATCH, {}, 400, "missing_field", ("runs",)),
    (BATCH, {"runs": []}, 400, "bad_value", ("runs", "0")),
    (BATCH, {"runs": [body()] * 1001}, 400, "bad_value", ("runs", "1001", "1000")),
    (BATCH, {"runs": {"job": "echo"}}, 400, "bad_value", ("runs",)),
    (BATCH, {"runs": [body(), 5]}, 400, "bad_value", ("runs[1]", "5")),
    (BATCH, {"runs": [body(), {"jop": "echo"}]}, 400, "unknown_field", ("'runs[1].jop'", "did you mean 'job'?")),
    (BATCH, {"runs": [body(), {"payload": {}}]}, 400, "missing_field", ("runs[1].job",)),
    (BATCH, {"runs": [body(), body(delay="soon")]}, 400, "bad_duration", ("runs[1].delay", "'soon'")),
    (BATCH, {"runs": [body(), {"job": "ecko"}]}, 400, "unknown_job", ("'ecko'",)),
    (BATCH, {"runs": [body(), {"job": "add"}]}, 400, "bad_payload", ("'left'",)),
    (BATCH, {"runs": [body(payload={"value": "x" * 1_000_000})] * 17}, 413, "payload_too_large", ("submit", "16,777")),
]


@pytest.mark.parametrize(("path", "given", "status", "code", "says"), BODIES, ids=lambda one: str(one)[:40])
def test_a_body_that_is_refused(
    http: Http, path: str, given: Any, status: int, code: str, says: tuple[str, ...]
) -> None:
    before = http.get(RUNS, limit=1).json["runs"]
    check(http.post(path, given), status, code, *says)
    assert http.get(RUNS, limit=1).json["runs"] == before, "something was created"


def test_a_payload_that_grows_on_its_way_is_refused_and_not_lost(http: Http) -> None:
    """Each number is 4 bytes as it comes and 10 as it is stored: more than fits into a message to the scheduler."""
    numbers = b"[" + b",".join([b"1E8"] * 100_000) + b"]"
    run = b'{"job": "echo", "payload": {"value": %s}}' % numbers
    check(http.post(BATCH, b'{"runs": [%s]}' % b",".join([run] * 50)), 413, "payload_too_large", "payload")


def test_no_error_shows_a_payload(http: Http) -> None:
    secret = "hunter2-hunter2"
    runs = [body(payload={"value": {"password": secret}})] * 1001
    for path, given in (
        (BATCH, {"runs": runs}),
        (BATCH, {"runs": {"password": secret}}),
        (RUNS, body(payload=secret)),
        (RUNS, body(session={"password": secret})),
        (RUNS, {"job": "add", "payload": {"password": secret}}),
        (RUNS, {"job": "add", "payload": {"left": secret, "password": secret}}),
    ):
        answer = http.post(path, given)
        assert answer.status == 400
        assert secret not in answer.body.decode()


def test_of_two_equal_fields_the_last_counts(http: Http) -> None:
    """As everywhere where JSON is read; it is the one that the checks were made on."""
    answer = http.post(RUNS, b'{"job": "echo", "payload": {"value": 1}, "payload": {"value": 2}}')
    assert http.ended(answer.json["id"])["result"] == 2


# ── query, path, method, headers ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("path", "status", "code", "says"),
    [
        (f"{RUNS}?limt=3", 400, "unknown_field", ("'limt'", "did you mean 'limit'?")),
        (f"{RUNS}?limit=0", 400, "bad_value", ("limit", "'0'")),
        (f"{RUNS}?limit=1001", 400, "bad_value", ("limit", "'1001'")),
        (f"{RUNS}?limit=many", 400, "bad_value", ("limit", "'many'")),
        (f"{RUNS}?limit=null", 400, "bad_value", ("limit", "'null'")),
        (f"{RUNS}?limit=1&limit=2", 400, "bad_value", ("limit", "once")),
        (f"{RUNS}?state=done", 400, "bad_value", ("state", "'done'", "succeeded")),
        (f"{RUNS}?live=maybe", 400, "bad_value", ("live", "'maybe'")),
        (f"{RUNS}?live=null", 400, "bad_value", ("live", "'null'")),
        (f"{RUNS}?since=yesterday", 400, "bad_value", ("since", "'yesterday'")),
        (f"{RUNS}?since=NULL", 400, "bad_value", ("since", "'NULL'")),
        (f"{RUNS}?since=-1", 400, "bad_value", ("since", "'-1'")),
        (f"{RUNS}?since=nan", 400, "bad_value", ("since", "'nan'")),
        (f"{RUNS}?until=1e300", 400, "bad_value", ("until",)),
        (f"{RUNS}?job={'x' * 257}", 400, "bad_value", ("job",)),
        (f"{RUNS}?cursor=", 400, "bad_cursor", ("cursor", "''")),
        (f"{RUNS}?cursor=abc", 400, "bad_cursor", ("cursor", "'abc'")),
        (f"{RUNS}?cursor=l5", 400, "bad_cursor", ("cursor", "'l5'")),
        (f"{RUNS}?cursor=r-5", 400, "bad_cursor", ("cursor",)),
        (f"{RUNS}?cursor=r{'9' * 19}", 400, "bad_cursor", ("cursor",)),
        (f"{RUNS}?cursor=r%D9%A3", 400, "bad_cursor", ("cursor",)),
        (f"{RUNS}/nope", 404, "unknown_run", ("run", "'nope'")),
        (f"{RUNS}/nope?wait=1s", 404, "unknown_run", ("run", "'nope'")),
        (f"{RUNS}/nope?wait=soon", 400, "bad_duration", ("wait", "'soon'")),
        (f"{RUNS}/nope?wait=30", 400, "bad_duration", ("wait", "'30'")),
        (f"{RUNS}/nope?wait=-1s", 400, "bad_duration", ("wait", "'-1s'")),
        (f"{RUNS}/nope?wait=301s", 400, "bad_value", ("wait", "'301s'", "300s")),
        (f"{RUNS}/nope?wiat=1s", 400, "unknown_field", ("'wiat'", "did you mean 'wait'?")),
        (f"{RUNS}/{'x' * 1201}", 400, "bad_value", ("run_id",)),
        (f"{RUNS}/%00", 404, "unknown_run", (r"'\x00'",)),
        (f"{RUNS}/%FF", 404, "not_found", ()),
        (f"{RUNS}/a%0Ab", 404, "unknown_run", (r"'a\nb'",)),
        (f"{RUNS}/nope/history", 404, "unknown_run", ("run", "'nope'")),
        (f"{RUNS}/nope/logs", 404, "unknown_run", ("run", "'nope'")),
        (f"{RUNS}/nope/logs?cursor=r5", 400, "bad_cursor", ("cursor", "'r5'")),
        (f"{RUNS}/nope/logs?limit=10001", 400, "bad_value", ("limit",)),
        (f"{RUNS}/nope/results", 404, "not_found", (f"'{RUNS}/nope/results'", "/openapi.json")),
        ("/nowhere", 404, "not_found", ("'/nowhere'",)),
        (f"{RUNS}/", 404, "not_found", ()),
        ("//healthz", 404, "not_found", ()),
        ("/api/v2/runs", 404, "not_found", ("'/api/v2/runs'",)),
        ("/../etc/passwd", 404, "not_found", ()),
        ("/healthz?deep=1", 400, "unknown_field", ("'deep'",)),
    ],
)
def test_a_question_that_is_refused(http: Http, path: str, status: int, code: str, says: tuple[str, ...]) -> None:
    if code == "bad_cursor" and "/logs" in path:
        path = path.replace("nope", http.submit("echo"))
    check(http.get(path), status, code, *says)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", RUNS, "GET, OPTIONS, POST"),
        ("PUT", f"{RUNS}/nope", "GET, OPTIONS"),
        ("GET", BATCH, "OPTIONS, POST"),
        ("GET", f"{RUNS}/nope/cancel", "OPTIONS, POST"),
        ("POST", f"{RUNS}/nope/history", "GET, OPTIONS"),
        ("POST", "/healthz", "GET, HEAD, OPTIONS"),
        ("HEAD", RUNS, "GET, OPTIONS, POST"),
        ("TRACE", "/readyz", "GET, HEAD, OPTIONS"),
        ("PATCH", "/api/v1/events", "GET, OPTIONS"),
    ],
)
def test_a_method_that_is_none_of_the_path(http: Http, method: str, path: str, allowed: str) -> None:
    answer = http.ask(method, path)
    assert (answer.status, answer.headers["allow"]) == (405, allowed)
    if method != "HEAD":
        check(answer, 405, "method_not_allowed", method, path)
    options = http.ask("OPTIONS", path)
    assert (options.status, options.headers["allow"], options.body) == (204, allowed, b"")


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonp", "json"])
@pytest.mark.parametrize("path", [RUNS, BATCH, f"{RUNS}/nope/cancel"])
def test_a_body_of_another_type(http: Http, path: str, kind: str) -> None:
    check(http.post(path, b'{"job": "echo"}', {"Content-Type": kind}), 415, "unsupported_media_type", repr(kind))


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON", "application/json ;x=y"])
def test_a_body_of_the_right_type(http: Http, kind: str) -> None:
    assert http.post(RUNS, b'{"job": "echo"}', {"Content-Type": kind}).status == 201


@pytest.mark.parametrize(
    ("given", "status", "code"),
    [
        (b'{"reason": 5}', 400, "bad_value"),
        (b'{"reason": "' + b"x" * 1001 + b'"}', 400, "bad_value"),
        (b'{"why": "so"}', 400, "unknown_field"),
        (b'{"reason": "\\ud800"}', 400, "bad_json"),
        (b"[]", 400, "bad_value"),
        (b"{", 400, "bad_json"),
        (b'{"reason": "no such run"}', 404, "unknown_run"),
        (None, 404, "unknown_run"),
    ],
)
def test_a_cancel_that_is_refused(http: Http, given: bytes | None, status: int, code: str) -> None:
    check(http.post(f"{RUNS}/nope/cancel", given), status, code)


# ── keys ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("key", ["x" * 257, "caf\xe9", "\t"])
def test_a_key_in_the_header_that_is_refused(http: Http, key: str) -> None:
    check(http.post(RUNS, body(), {"Idempotency-Key": key}), 400, "bad_value", "Idempotency-Key")


def test_a_key_of_a_batch_leaves_room_for_the_numbers(http: Http) -> None:
    check(http.post(BATCH, {"runs": [body()]}, {"Idempotency-Key": "x" * 253}), 400, "bad_value", "Idempotency-Key")
    assert http.post(BATCH, {"runs": [body()] * 1000}, {"Idempotency-Key": "x" * 252}).status == 201


def test_two_keys_that_differ(http: Http) -> None:
    answer = http.post(RUNS, body(idempotency_key="one"), {"Idempotency-Key": "other"})
    check(answer, 400, "bad_value", "idempotency_key", "'one'", "'other'")
    same = http.post(RUNS, body(idempotency_key="two-keys"), {"Idempotency-Key": "two-keys"})
    assert same.status == 201


@pytest.mark.behaviour("RUN-6")
def test_a_key_that_was_used_for_something_else(http: Http) -> None:
    first = http.submit("echo", {"value": 1}, idempotency_key="conflict")
    for given in (body(payload={"value": 2}), {"job": "echo.thread", "payload": {"value": 1}}):
        answer = http.post(RUNS, given, {"Idempotency-Key": "conflict"})
        check(answer, 409, "idempotency_conflict", "'conflict'", first)
    several = [body(), body(payload={"value": 3}, idempotency_key="conflict")]
    before = http.get(RUNS, limit=1).json
    check(http.post(BATCH, {"runs": several}), 409, "idempotency_conflict", first)
    assert http.get(RUNS, limit=1).json == before, "half a batch was created"


# ── size ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def small() -> Iterator[Http]:
    """A server that takes small bodies only."""
    with clean_folder() as place:
        (place / "interlock.yaml").write_text(f"max_body: {LIMIT}\n")
        with sound(Server(place, "--http", "127.0.0.1:0", "--workers", "0")) as running:
            yield running.http


def filled(size: int) -> bytes:
    """A good body of exactly this size."""
    start, end = b'{"job": "echo", "payload": {"value": "', b'"}}'
    return start + b"x" * (size - len(start) - len(end)) + end


def chunks(data: bytes) -> Iterator[bytes]:
    for place in range(0, len(data), 10_000):
        yield data[place : place + 10_000]


def test_a_body_at_the_limit_and_just_above(small: Http) -> None:
    assert small.post(RUNS, filled(LIMIT)).status == 201
    assert small.post(RUNS, chunks(filled(LIMIT))).status == 201
    check(small.post(RUNS, filled(LIMIT + 1)), 413, "body_too_large", "body", f"{LIMIT:,}")
    check(small.post(RUNS, chunks(filled(LIMIT + 1))), 413, "body_too_large", "body", f"{LIMIT:,}")
    assert small.count() == 2


def test_a_body_that_is_announced_too_large_is_not_waited_for(small: Http) -> None:
    with Raw(small.address) as raw:
        raw.send(head("POST", RUNS, **{"Content-Type": "application/json", "Content-Length": "999999999999"}))
        check(raw.answer(), 413, "body_too_large")


def test_a_body_without_end_is_cut(small: Http) -> None:
    with Raw(small.address) as raw:
        raw.send(head("POST", RUNS, **{"Content-Type": "application/json", "Transfer-Encoding": "chunked"}))
        for _ in range(LIMIT // 1000 + 1):
            raw.send(b"3e8\r\n" + b" " * 1000 + b"\r\n")
        check(raw.answer(), 413, "body_too_large")


def test_every_problem_is_one_that_is_documented(http: Http) -> None:
    documented = http.get("/openapi.json").json["paths"]
    for path, _, status, *_ in BODIES:
        assert str(status) in documented[path]["post"]["responses"]
