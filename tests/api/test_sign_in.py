"""Signing in: a session needs its cookie and its secret, from a page of its own origin, while its token is there."""

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from interlock.api.sign_in import Sessions
from interlock.error import InterlockError, Unauthorized
from interlock.model.access import Caller, Grant, Role, digest_of
from interlock.model.record import Memo
from tests.api.conftest import guard, sound
from tests.api.tokens import TOKENS, as_
from tests.helpers.http import Answer, Http
from tests.helpers.places import clean_folder
from tests.helpers.processes import wait_until
from tests.helpers.server import Server

RUNS, ME, SIGN_IN = "/api/v1/runs", "/api/v1/me", "/api/v1/sign-in"
PERMISSIONS = {"read", "submit", "cancel", "operate", "approve", "read the audit", "every tenant"}


class Session(NamedTuple):
    cookie: str
    secret: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Cookie": self.cookie, "X-Interlock-Secret": self.secret}


def sign_in(http: Http, name: str, **headers: str) -> tuple[Session, Answer]:
    answer = http.post(SIGN_IN, {"token": TOKENS[name].text}, headers)
    assert answer.status == 200, answer
    return Session(answer.headers["set-cookie"].partition(";")[0], answer.json["secret"]), answer


@pytest.fixture(scope="module")
def clerk(guarded: Server) -> Session:
    return sign_in(guarded.http, "clerk")[0]


def test_a_session_sees_and_acts_as_its_token(guarded: Server, clerk: Session) -> None:
    run = guarded.http.post(RUNS, {"job": "echo", "delay": "1h"}, clerk.headers)
    assert (run.status, run.json["tenant"]) == (201, "red")
    history = guarded.http.get(f"{RUNS}/{run.json['id']}/history", clerk.headers).json
    assert history["entries"][0]["actor"] == "clerk"
    assert guarded.http.get("/metrics", clerk.headers).code == "forbidden"
    assert guarded.http.get(RUNS, clerk.headers, tenant="blue").json["runs"] == []


@pytest.mark.behaviour("SEC-3")
def test_the_cookie_is_for_this_server_alone_and_for_twelve_hours(guarded: Server) -> None:
    session, answer = sign_in(guarded.http, "clerk")
    name = session.cookie.partition("=")[0]
    pair, *attributes = answer.headers["set-cookie"].split("; ")
    assert pair == session.cookie
    assert set(attributes) == {"Path=/", "Max-Age=43200", "HttpOnly", "SameSite=Strict"}
    assert name.startswith("interlock_")
    assert answer.headers["cache-control"] == "no-store"
    assert session.secret not in session.cookie
    again, _ = sign_in(guarded.http, "clerk")
    assert again.cookie != session.cookie
    assert again.secret != session.secret
    with clean_folder() as place:
        guard(place)
        other = Server(place, "--drain", "1s", "--http", "127.0.0.1:0", "--workers", "0")
        other.extra = {"BOSS_TOKEN": TOKENS["boss"].text}
        with sound(other):
            theirs, _ = sign_in(other.http, "clerk")
            assert theirs.cookie.partition("=")[0] != name, "servers on two ports of a host share its cookies"
            assert guarded.http.get(RUNS, theirs.headers).code == "unauthorized"
            renamed = Session(f"{name}={theirs.cookie.partition('=')[2]}", theirs.secret)
            assert guarded.http.get(RUNS, renamed.headers).code == "unauthorized"


@pytest.mark.parametrize(
    "headers", [{"Origin": "https://desk.example", "Host": "desk.example"}, {"X-Forwarded-Proto": "https"}], ids=str
)
def test_behind_tls_the_cookie_is_secure(guarded: Server, headers: dict[str, str]) -> None:
    _, answer = sign_in(guarded.http, "clerk", **headers)
    assert "Secure" in answer.headers["set-cookie"].split("; ")


@pytest.mark.behaviour("SEC-3")
def test_neither_the_cookie_nor_the_secret_alone_is_enough(guarded: Server, clerk: Session) -> None:
    boss, _ = sign_in(guarded.http, "boss")
    again, _ = sign_in(guarded.http, "clerk")
    name, _, value = clerk.cookie.partition("=")
    who, until, nonce, signature = value.split(":")
    attempts: dict[str, Mapping[str, str]] = {
        "INTERLOCK_TOKEN": {"Cookie": clerk.cookie},
        "without its cookie": {"X-Interlock-Secret": clerk.secret},
        "is not the one of the cookie": {"Cookie": clerk.cookie, "X-Interlock-Secret": boss.secret},
        "not the one of the cookie": {"Cookie": clerk.cookie, "X-Interlock-Secret": again.secret},
        "the one of the cookie": {"Cookie": clerk.cookie, "X-Interlock-Secret": signature},
        "of the cookie": {"Cookie": clerk.cookie, "X-Interlock-Secret": "x"},
        "session: unknown": Session(f"{name}=boss:{until}:{nonce}:{signature}", boss.secret).headers,
        "unknown, or": Session(f"{name}={who}:{int(until) + 1}:{nonce}:{signature}", clerk.secret).headers,
        "or its token": Session(f"{name}={who}:{until}:{nonce}:{signature[:-1]}", clerk.secret).headers,
        "its token was removed": Session(f"{name}=", clerk.secret).headers,
        "token was removed": Session(f"{name}=\xff:::", clerk.secret).headers,
        "came without": Session(f"{name}x={value}", clerk.secret).headers,
    }
    before = as_(guarded, "boss").count()
    for text, headers in attempts.items():
        for answer in (guarded.http.get(RUNS, headers), guarded.http.post(RUNS, {"job": "echo"}, headers)):
            assert (answer.status, answer.code) == (401, "unauthorized"), headers
            assert text in answer.json["detail"]
        assert guarded.http.get("/healthz", headers).status == 200
    assert as_(guarded, "boss").count() == before
    both = Session(f"{boss.cookie}; a=b; {clerk.cookie}", clerk.secret)
    assert guarded.http.get(ME, both.headers).json["name"] == "clerk", "another cookie of the name shuts nobody out"


@pytest.mark.behaviour("SEC-3")
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://localhost:1"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
    ids=str,
)
def test_a_page_of_another_port_can_neither_read_nor_act_nor_sign_in(
    guarded: Server, clerk: Session, headers: dict[str, str]
) -> None:
    """The browser adds the cookie to what such a page sends; not even the secret would help it."""
    before = as_(guarded, "boss").count()
    for given in (headers | {"Cookie": clerk.cookie}, headers | clerk.headers):
        for answer in (
            guarded.http.get(RUNS, given),
            guarded.http.post(RUNS, {"job": "echo"}, given),
            guarded.http.post(RUNS, b'{"job": "echo"}', given | {"Content-Type": "text/plain"}),
            guarded.http.post(SIGN_IN, {"token": TOKENS["clerk"].text}, given),
        ):
            assert (answer.status, answer.code) == (403, "wrong_origin")
            assert "set-cookie" not in answer.headers
            assert not [name for name in answer.headers if name.startswith("access-control-")]
    # Nor may it load a script or a picture from here, which has no origin.
    assert guarded.http.get(RUNS, {"Cookie": clerk.cookie, "Sec-Fetch-Site": "same-site"}).code == "wrong_origin"
    assert as_(guarded, "boss").count() == before


def test_a_wrong_token_signs_nobody_in_and_is_in_the_audit(guarded: Server) -> None:
    answer = guarded.http.post(SIGN_IN, {"token": "wrong-token-of-some-length"})
    assert (answer.status, answer.code) == (401, "unauthorized")
    assert "set-cookie" not in answer.headers
    assert "wrong-token" not in answer.json["detail"]
    for body in ({"token": 1234567890}, {"token": ["wrong-token-of-some-length"]}, {"tokem": "x"}, {}):
        refused = guarded.http.post(SIGN_IN, body)
        assert refused.status == 400
        assert "1234567890" not in refused.json["detail"]

    def is_noted() -> bool:
        entries = as_(guarded, "boss").get("/api/v1/audit", kind="token_refused", last=True).json["entries"]
        return any(entry["subject"] == "POST /api/v1/sign-in" for entry in entries)

    wait_until(is_noted, "the refusal is in the audit")


@pytest.mark.behaviour("SEC-2")
def test_me_says_what_a_caller_may_do_and_why_not(guarded: Server, clerk: Session) -> None:
    may = {name: set(as_(guarded, name).get(ME).json["may"]) for name in TOKENS}
    assert may["boss"] == PERMISSIONS
    assert may["watchman"] == {"read", "every tenant"}
    assert may["guest"] == {"read"}
    assert may["clerk"] == {"read", "submit", "cancel", "operate"}
    assert may["judge"] == {"read", "approve", "read the audit"}
    guest = as_(guarded, "guest").get(ME).json
    assert (guest["name"], guest["role"], guest["tenant"], guest["until"]) == ("guest", "viewer", "red", None)
    assert guest["may_not"].keys() == PERMISSIONS - {"read"}
    assert guest["may_not"]["cancel"] == "role: 'viewer' may not cancel"
    assert "'red' alone" in guest["may_not"]["every tenant"]
    session = guarded.http.get(ME, clerk.headers).json
    assert (session["name"], session["role"], session["tenant"]) == ("clerk", "operator", "red")
    assert session["until"] > "2026"
    assert guarded.http.get(ME).code == "unauthorized"
    local = guarded.local.get(ME, {"X-Interlock-Secret": "x"}).json
    assert (local["name"], set(local["may"]), local["may_not"]) == ("local", PERMISSIONS, {})


def test_without_tokens_nobody_signs_in(server: Server) -> None:
    answer = server.http.post(SIGN_IN, {"token": "some-token-of-some-length"})
    assert (answer.status, answer.code) == (409, "nobody_signs_in")
    assert "set-cookie" not in answer.headers
    me = server.http.get(ME).json
    assert (me["name"], me["role"], me["tenant"], me["until"]) == ("local", "admin", "*", None)


def test_sessions_outlast_a_restart_and_end_with_their_token() -> None:
    with clean_folder() as place:
        guard(place)
        server = Server(place, "--drain", "1s", "--http", "127.0.0.1:0", "--workers", "0")
        server.extra = {"BOSS_TOKEN": TOKENS["boss"].text}

        def restart() -> None:
            server.stop()
            server.start()

        with sound(server):
            sessions = {name: sign_in(server.http, name)[0] for name in ("clerk", "guest", "judge")}
            restart()
            for name, session in sessions.items():
                assert server.http.get(ME, session.headers).json["name"] == name
            text = (place / "interlock.yaml").read_text()
            kept = [line for line in text.splitlines() if "name: guest" not in line]
            replaced = digest_of("another-token-of-the-judge").hex()
            kept = [line.replace(digest_of(TOKENS["judge"].text).hex(), replaced) for line in kept]
            (place / "interlock.yaml").write_text("\n".join(kept) + "\n")
            restart()
            assert server.http.get(ME, sessions["clerk"].headers).json["name"] == "clerk"
            for name in ("guest", "judge"):
                answer = server.http.get(ME, sessions[name].headers)
                assert answer.code == "unauthorized"
                assert "its token was removed" in answer.json["detail"]


# ── the instant at which a session ends ─────────────────────────────────────────────────────────────────────────────

GRANT = Grant(digest_of("token-of-ann-0123"), Caller("ann", Role.VIEWER, "red"))


class Store:
    async def record(self, kind: type[Memo], id: str) -> Memo:
        return Memo(id, b"5a" * 32)


def test_a_session_ends_after_twelve_hours() -> None:
    now = 1_000_000.0
    store: Any = Store()
    sessions = Sessions(store, SimpleNamespace(), [GRANT], lambda: now)  # type: ignore[arg-type] # the key is there
    call: Any = SimpleNamespace(request=SimpleNamespace(token="token-of-ann-0123"), headers={})

    def caller(headers: Mapping[bytes, bytes]) -> Caller | None:
        return asyncio.run(sessions.caller(headers))

    reply = asyncio.run(sessions.sign_in(call))
    cookie = dict(reply.headers)[b"set-cookie"].partition(b";")[0]
    headers = {b"cookie": b"other=1; " + cookie, b"x-interlock-secret": reply.answer.secret.encode()}
    assert reply.answer.until == 1_043_200.0
    now = 1_043_199.0
    assert caller(headers) == GRANT.caller
    now = 1_043_200.0
    with pytest.raises(Unauthorized, match=r"session: it ended at 1970-01-13T01:46:40\.000Z; sign in again"):
        caller(headers)


def test_a_program_that_speaks_over_a_link_does_not_sign_in() -> None:
    for role in (Role.WORKER, Role.GATEWAY):
        grant = Grant(digest_of("token-of-ann-0123"), Caller("ann", role, "*"))
        store: Any = Store()
        sessions = Sessions(store, SimpleNamespace(), [grant])  # type: ignore[arg-type] # the key is there
        call: Any = SimpleNamespace(request=SimpleNamespace(token="token-of-ann-0123"), headers={})
        with pytest.raises(InterlockError, match=f"role: '{role}' may not sign in"):
            asyncio.run(sessions.sign_in(call))
