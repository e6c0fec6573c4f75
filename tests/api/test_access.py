"""Who may come in, and what they may do and see there."""

import stat
from pathlib import Path
from typing import Any

import pytest

from tests.api.tokens import TOKENS, as_
from tests.helpers.http import Http, Raw, ends, head
from tests.helpers.places import tell_to_go
from tests.helpers.processes import processes_of
from tests.helpers.server import Server

RUNS = "/api/v1/runs"
OPEN = ("/healthz", "/readyz", "/openapi.json")
READING = (RUNS, f"{RUNS}/{{run}}", f"{RUNS}/{{run}}/history", f"{RUNS}/{{run}}/logs")


@pytest.fixture(scope="module")
def run(guarded: Server) -> str:
    """A run of the tenant red, at rest."""
    run_id = as_(guarded, "boss").submit("echo", {"value": 1}, tenant="red", delay="1h")
    assert as_(guarded, "boss").get(f"{RUNS}/{run_id}").json["state"] == "prerun"
    return run_id


# ── tokens ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "given",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong-token-of-some-length",
        f"Bearer {TOKENS['boss'].text}x",
        f"Bearer {TOKENS['boss'].text[:-1]}",
        f"Bearer {TOKENS['boss'].text.upper()}",
        f"Basic {TOKENS['boss'].text}",
        f"Token {TOKENS['boss'].text}",
        TOKENS["boss"].text,
        f"Bearer {TOKENS['boss'].text} {TOKENS['boss'].text}",
        "Bearer \xff\xfe",
    ],
)
def test_without_a_token_nothing_is_told(guarded: Server, run: str, given: str | None) -> None:
    headers = {} if given is None else {"Authorization": given}
    answers = [
        guarded.http.get(path.format(run=run), headers) for path in (*READING, "/metrics", "/api/v1/events", "/nowhere")
    ]
    answers += [guarded.http.post(path, {"job": "echo"}, headers) for path in (RUNS, f"{RUNS}/{run}/cancel")]
    for answer in answers:
        assert (answer.status, answer.code) == (401, "unauthorized")
        assert answer.headers["www-authenticate"] == 'Bearer realm="interlock"'
        assert "INTERLOCK_TOKEN" in answer.json["detail"]
    assert len({answer.body for answer in answers}) == 1, "a wrong token is told from a missing one"


@pytest.mark.parametrize("kind", ["Bearer", "bearer", "BEARER"])
def test_a_token_lets_in(guarded: Server, kind: str) -> None:
    for token in TOKENS.values():
        assert guarded.http.get(RUNS, {"Authorization": f"{kind} {token.text}"}).status == 200


@pytest.mark.behaviour("OBS-3")
@pytest.mark.parametrize("path", OPEN)
def test_probes_need_no_token(guarded: Server, path: str) -> None:
    assert guarded.http.get(path).status == 200


def test_a_stranger_is_told_whether_it_works_and_no_more(guarded: Server) -> None:
    bare = guarded.http.get("/readyz").json
    assert bare["ready"] is True
    assert {check["detail"] for check in bare["checks"].values()} == {""}
    assert "live runs" in as_(guarded, "guest").get("/readyz").json["checks"]["scheduler"]["detail"]


# ── roles ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_role_is_looked_at_before_the_body(guarded: Server) -> None:
    """What is wrong with a body that may not be sent at all is nobody's business."""
    assert as_(guarded, "guest").post(RUNS, b"{").code == "forbidden"


def test_the_actor_of_what_is_done_is_the_tokens_name(guarded: Server) -> None:
    http = as_(guarded, "clerk")
    run_id = http.submit("echo", delay="1h")
    http.post(f"{RUNS}/{run_id}/cancel", {"reason": "not needed"})
    entries = http.get(f"{RUNS}/{run_id}/history").json["entries"]
    assert entries[0]["actor"] == "clerk"
    assert (entries[-1]["after"], entries[-1]["actor"], entries[-1]["reason"]) == ("cancelled", "clerk", "not needed")


# ── tenants ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("SEC-2")
def test_events_are_only_the_own_tenants(guarded: Server, run: str) -> None:
    """Live and from the store, with and without asking for what is not one's own."""
    boss, stranger = as_(guarded, "boss"), as_(guarded, "stranger")
    seeing: list[dict[str, Any]] = [{}, {"tenant": "blue"}, {"after": 0}, {"after": 0, "tenant": "blue"}]
    for query in seeing:
        with stranger.events(**query) as stream:
            boss.submit("echo", tenant="red")
            told = stream.until(ends([stranger.submit("echo")]))
            assert {one.data["tenant"] for one in told if one.name != "gap"} == {"blue"}
    blind: list[dict[str, Any]] = [
        {"tenant": "red"},
        {"run": run},
        {"after": 0, "run": run},
        {"after": 0, "tenant": "red"},
    ]
    for query in blind:
        with stranger.events(**query) as stream, boss.events() as witness:
            witness.until(ends([boss.submit("echo", tenant="red")]))
            stream.raw.sock.settimeout(0.2)
            with pytest.raises(TimeoutError):
                stream.next()


def test_the_tokens_tenant_is_the_default_of_a_submit(guarded: Server) -> None:
    def tenant_of(name: str, **fields: Any) -> str:
        run_id = as_(guarded, name).submit("echo", **fields)
        found: str = as_(guarded, "boss").get(f"{RUNS}/{run_id}").json["tenant"]
        return found

    assert tenant_of("clerk") == "red"
    assert tenant_of("clerk", tenant="red") == "red"
    assert tenant_of("boss") == "default"
    assert tenant_of("boss", tenant="blue") == "blue"


@pytest.mark.parametrize("tenant", ["blue", "default", "RED"])
def test_a_submit_for_another_tenant_is_refused(guarded: Server, tenant: str) -> None:
    before = as_(guarded, "boss").count()
    http = as_(guarded, "clerk")
    for answer in (
        http.post(RUNS, {"job": "echo", "tenant": tenant}),
        http.post(f"{RUNS}/batch", {"runs": [{"job": "echo"}, {"job": "echo", "tenant": tenant}]}),
    ):
        assert (answer.status, answer.code) == (403, "forbidden")
        assert f"tenant: {tenant!r}" in answer.json["detail"]
    assert as_(guarded, "boss").count() == before


@pytest.mark.behaviour("RUN-6")
def test_keys_of_tenants_have_nothing_to_do_with_each_other(guarded: Server) -> None:
    first = as_(guarded, "clerk").submit("echo", {"value": 1}, idempotency_key="shared")
    other = as_(guarded, "stranger").submit("echo", {"value": 2}, idempotency_key="shared")
    assert first != other
    assert as_(guarded, "clerk").submit("echo", {"value": 1}, idempotency_key="shared") == first


# ── pages of others ─────────────────────────────────────────────────────────────────────────────────────────────────

REFUSED: list[dict[str, str]] = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://localhost.evil.example"},
    {"Origin": "http://localhost:1"},
    {"Origin": "http://[::1]"},
    {"Origin": "http://evil.example", "Host": "127.0.0.1"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
]
"""what a browser adds to what a page of another origin sends"""
REBOUND: list[dict[str, str]] = [
    {"Host": "evil.example"},
    {"Host": "evil.example:8420", "Origin": "http://evil.example:8420"},
    {"Host": "127.0.0.1.evil.example"},
    {"Host": "localhost.evil.example"},
    {"Host": "10.0.0.1"},
    {"Host": "0.0.0.0"},
]
"""what is sent by a page whose name was made to lead here"""
WELCOME: list[dict[str, str]] = [
    {"Host": "localhost"},
    {"Host": "LOCALHOST:80"},
    {"Host": "127.0.0.1"},
    {"Host": "127.1.2.3:80"},
    {"Host": "[::1]:80"},
    {"Host": "[::1]"},
    {"Host": "localhost:99", "Origin": "http://localhost:99"},
    {"Host": "localhost", "Origin": "https://localhost"},
    {"Host": "localhost", "Sec-Fetch-Site": "same-origin"},
    {"Host": "localhost", "Sec-Fetch-Site": "none"},
]


@pytest.mark.behaviour("SEC-3")
@pytest.mark.parametrize("headers", [*REFUSED, *REBOUND], ids=str)
def test_a_page_of_another_origin_is_refused(http: Http, headers: dict[str, str]) -> None:
    before = http.get(RUNS, limit=1).json
    for answer in (
        http.post(RUNS, {"job": "echo"}, headers),
        http.post(RUNS, b'{"job": "echo"}', headers | {"Content-Type": "text/plain"}),
        http.get(RUNS, headers),
        http.get("/api/v1/events", headers),
        http.get("/healthz", headers),
        http.ask("OPTIONS", RUNS, None, headers | {"Access-Control-Request-Method": "POST"}),
    ):
        assert (answer.status, answer.code) == (403, "wrong_origin")
        assert not [name for name in answer.headers if name.startswith("access-control-")]
    assert http.get(RUNS, limit=1).json == before


@pytest.mark.behaviour("SEC-3")
@pytest.mark.parametrize("headers", REFUSED, ids=str)
def test_a_token_does_not_help_a_page_of_another_origin(guarded: Server, headers: dict[str, str]) -> None:
    assert as_(guarded, "boss").post(RUNS, {"job": "echo"}, headers).code == "wrong_origin"
    assert guarded.local.post(RUNS, {"job": "echo"}, headers).code == "wrong_origin"


@pytest.mark.parametrize("headers", WELCOME, ids=str)
def test_the_own_pages_and_other_programs_are_let_in(http: Http, headers: dict[str, str]) -> None:
    answer = http.get(RUNS, headers, limit=1)
    assert answer.status == 200
    assert not [name for name in answer.headers if name.startswith("access-control-")]


@pytest.mark.behaviour("SEC-3")
def test_a_request_without_a_host_is_refused(http: Http) -> None:
    with Raw(http.address) as raw:
        raw.send(b"GET /healthz HTTP/1.0\r\n\r\n")
        answer = raw.answer()
    assert answer.status in (400, 403)


def test_origins_and_hosts_that_are_allowed(folder: Path) -> None:
    (folder / "interlock.yaml").write_text("origins: ['https://desk.example']\nhosts: [desk.example]\n")
    with Server(folder, "--http", "127.0.0.1:0", "--workers", "0") as server:
        http = server.http
        assert http.post(RUNS, {"job": "echo"}, {"Origin": "https://desk.example"}).status == 201
        assert http.post(RUNS, {"job": "echo"}, {"Host": "desk.example"}).status == 201
        assert http.post(RUNS, {"job": "echo"}, {"Origin": "https://other.example"}).code == "wrong_origin"
        assert http.post(RUNS, {"job": "echo"}, {"Host": "other.example"}).code == "wrong_origin"


# ── the ways in ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("SEC-1")
def test_the_unix_socket_is_the_owners(guarded: Server, run: str) -> None:
    assert stat.S_IMODE(guarded.http_socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(guarded.socket.stat().st_mode) == 0o600
    assert guarded.local.get(f"{RUNS}/{run}").json["tenant"] == "red"
    wrong = {"Authorization": "Bearer wrong"}
    own = guarded.local.post(RUNS, {"job": "echo", "tenant": "green"}, wrong).json["id"]
    assert guarded.local.get(f"{RUNS}/{own}/history").json["entries"][0]["actor"] == "local"


# ── nobody sees them ────────────────────────────────────────────────────────────────────────────────────────────────


SECRETS = [token.text for token in TOKENS.values()]


def test_tokens_are_seen_nowhere(guarded: Server) -> None:
    """Not in the log, though it logs everything, nor by `ps`, nor in what is answered."""
    boss = as_(guarded, "boss")
    hold = {"folder": str(guarded.folder), "name": "seen"}
    run_id = boss.submit("hold", hold)
    answers = [
        boss.get(RUNS),
        boss.get(f"{RUNS}/{run_id}"),
        boss.post(RUNS, b"{"),
        boss.get("/nowhere"),
        boss.get("/readyz"),
        boss.get("/metrics"),
        boss.get("/openapi.json"),
        guarded.http.get(RUNS, {"Authorization": f"Basic {SECRETS[0]}"}),
    ]
    with Raw(guarded.url) as raw:
        raw.send(head("G?T", "/", Authorization=f"Bearer {SECRETS[0]}"))
        answers.append(raw.answer())
    commands = [one.command for one in processes_of(guarded.folder)]
    tell_to_go(guarded.folder, "seen")
    assert len([one for one in commands if "interlock" in one]) >= 3
    for secret in SECRETS:
        assert secret not in guarded.said
        assert secret not in " ".join(commands)
        for answer in answers:
            assert secret.encode() not in answer.body
            assert secret not in str(answer.headers)


def test_secrets_of_a_payload_are_not_shown(guarded: Server) -> None:
    boss = as_(guarded, "boss")
    payload = {"value": {"password": "hunter2-hunter2", "note": {"$secret": "swordfish-swordfish"}, "user": "ann"}}
    run_id = boss.submit("echo", payload, delay="1h")
    shown = boss.get(f"{RUNS}/{run_id}").json["payload"]
    assert shown == {"value": {"password": "•••", "note": "•••", "user": "ann"}}
    boss.post(f"{RUNS}/{run_id}/cancel")
    with boss.events(run=run_id, after=0) as stream:
        told = stream.until(lambda one: one.data["state"] == "cancelled")
    for text in (str(told), guarded.said, str(boss.runs(limit=1000)), boss.get("/metrics").body.decode()):
        assert "hunter2" not in text
        assert "swordfish" not in text
