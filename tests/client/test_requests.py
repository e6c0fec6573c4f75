"""The request of each call, played by hand: method, path, query and body; pages; arguments that are refused unsent."""

from typing import Any

import msgspec
import pytest

import interlock as il
from interlock.client.http.exchange import HttpRequest
from interlock.interface.approval_view import ApprovalInfo, ApprovalPage
from interlock.interface.letter_view import LetterPage, letter_info
from interlock.model.audit import AuditKind, AuditPage
from interlock.model.child_info import ServiceAction
from interlock.model.delivery import DeliveryPage, DeliveryState, info_of
from interlock.model.job_info import JobInfo, JobPage
from interlock.model.letter import DeadLetter, Dropped, LetterCode
from interlock.model.schedule.schedule import Schedule
from tests.client.scripted import Played, Tell, answered, policy, returned
from tests.helpers.audited import audited
from tests.helpers.owed import PENDING, owed

V1 = "/api/v1"
APPROVAL = ApprovalInfo(
    run_id="r1", job_id="pay", tenant="red", rule="money", reason="money moves", created_by="bob", asked_at=1.0,
    expires_at=2.0, labels={}, seen="a:b",
)  # fmt: skip
JOB = JobInfo(
    id="nightly", source="a.yaml:1", kind="process", command="true", lane="main", version="v", max_concurrent_runs=1,
    schedule=Schedule(cron="0 2 * * *"), schedule_text="cron 0 2 * * *", paused=False, next_at=5.0, live=0,
    topic="nightly",
)  # fmt: skip
LETTER = letter_info(DeadLetter("r1", 5.0, LetterCode.FAILED, "no", "work", "red"))
CRON = Schedule(cron="0 2 * * *", tz="Europe/Paris")
EVERY = Schedule(every="10m", wait="1m")  # type: ignore[arg-type]


def asked(method: str, *arguments: Any, **options: Any) -> Any:
    """What is asked first."""
    return next(getattr(Played(policy()), method)(*arguments, **options))


@pytest.mark.parametrize(
    ("method", "arguments", "options", "path"),
    [
        ("approval", ("r1",), {}, "/approvals/r1"),
        ("approvals", (), {}, "/approvals?limit=500"),
        ("approvals", (), {"job": "pay", "tenant": "red", "limit": 2}, "/approvals?job=pay&tenant=red&limit=2"),
        ("audit", (), {"kind": "verdict", "actor": "a b", "tenant": "red", "subject": "a/b", "since": 5.0, "last": 7},
         "/audit?kind=verdict&actor=a+b&tenant=red&subject=a%2Fb&since=5.0&last=true&limit=7"),
        ("audit", (), {"kind": AuditKind.APPROVED}, "/audit?kind=approved&limit=500"),
        ("delivery", ("d1",), {}, "/deliveries/d1"),
        ("deliveries", (), {"state": DeliveryState.PENDING}, "/deliveries?state=pending&limit=500"),
        ("deliveries", (), {"run": "a/b", "job": "j", "tenant": "red", "state": "failed", "id_prefix": "0123abcd",
         "limit": 3}, "/deliveries?run=a%2Fb&job=j&tenant=red&state=failed&id_prefix=0123abcd&limit=3"),
        ("dead_letter", ("r1",), {}, "/dead-letters/r1"),
        ("dead_letters", (), {"code": "failed", "job": "j", "tenant": "red", "since": 1, "until": 2, "replayed": False,
         "limit": 3}, "/dead-letters?code=failed&job=j&tenant=red&since=1.0&until=2.0&replayed=false&limit=3"),
        ("sessions", ("red",), {}, "/sessions?tenant=red&limit=500"),
        ("session", ("a/b:é..", "red"), {}, "/sessions/a%2Fb:%C3%A9..?tenant=red"),
        ("job", ("nightly",), {}, "/jobs/nightly"),
        ("next_times", ("a", 3, 7.5), {}, "/jobs/a/next?count=3&after=7.5"),
        ("next_times", ("a", 3, "1970-01-01T01:00+00:30"), {}, "/jobs/a/next?count=3&after=1800.0"),
        ("job_log", ("a", 30), {}, "/jobs/a/log?limit=30"),
        ("timetable", ("2h", 9), {}, "/timetable?for=7200.000s&limit=9"),
        ("schedule_times", (CRON, 1, None), {}, "/next?count=1&cron=0+2+%2A+%2A+%2A&tz=Europe%2FParis"),
        ("schedule_times", (EVERY, 1, None), {}, "/next?count=1&every=600.0s&wait=60.0s"),
        ("tree", (), {}, "/tree"),
        ("services", (), {}, "/services"),
        ("service", ("we b?",), {}, "/services/we%20b%3F"),
        ("service_logs", ("web", False, 3), {}, "/services/web/logs?limit=3&last=true"),
    ],
)  # fmt: skip
def test_what_is_looked_at(method: str, arguments: tuple[Any, ...], options: dict[str, Any], path: str) -> None:
    assert asked(method, *arguments, **options) == HttpRequest("GET", V1 + path)


@pytest.mark.parametrize(
    ("method", "arguments", "request_"),
    [
        # None of these may be repeated: it could act on another run, deliver twice, or find the run answered.
        ("approve", ("r1", "fine", "a:b"), ("POST", "/runs/r1/approve", b'{"reason":"fine","seen":"a:b"}')),
        ("reject", ("r1", "no"), ("POST", "/runs/r1/reject", b'{"reason":"no"}')),
        ("redeliver", ("d1",), ("POST", "/deliveries/d1/redeliver", None)),
        ("act_on_session", ("..", "stop"), ("POST", "/sessions/%2E%2E/stop", None)),
        ("delete_job", ("nightly",), ("DELETE", "/jobs/nightly", None)),
    ],
)
def test_what_is_done_once(method: str, arguments: tuple[Any, ...], request_: tuple[str, str, bytes | None]) -> None:
    verb, path, body = request_
    assert asked(method, *arguments) == HttpRequest(verb, V1 + path, body, once=True)


@pytest.mark.parametrize("action", [*ServiceAction, "restart"])
def test_an_action_on_a_service_and_a_reload_wait_beside_the_pool(action: ServiceAction | str) -> None:
    waiting: dict[str, Any] = {"within": 310.0, "alone": True, "once": True}
    assert asked("act", "web", action) == HttpRequest("POST", f"{V1}/services/web/{action}", **waiting)
    assert asked("reload") == HttpRequest("POST", f"{V1}/reload", **waiting)


@pytest.mark.parametrize(
    ("method", "path", "page", "row"),
    [
        ("approvals", "/approvals", lambda rows, following: ApprovalPage(approvals=rows, next=following), APPROVAL),
        ("audit", "/audit", lambda rows, following: AuditPage(entries=rows, next=following, head=None), audited()[0]),
        ("deliveries", "/deliveries", lambda rows, following: DeliveryPage(deliveries=rows, next=following),
         info_of(owed(PENDING))),
        ("dead_letters", "/dead-letters", lambda rows, following: LetterPage(letters=rows, counts={}, next=following),
         LETTER),
        ("jobs", "/jobs", lambda rows, following: JobPage(jobs=rows, next=following), JOB),
    ],
)  # fmt: skip
def test_pages_follow_each_other_until_the_limit(method: str, path: str, page: Any, row: Any) -> None:
    listing: Any = getattr(Played(policy()), method)()
    assert next(listing).path == f"{V1}{path}?limit=500"
    assert listing.send(answered(page([row], "p 7"))) == Tell(row)
    assert next(listing).path == f"{V1}{path}?limit=500&cursor=p+7"
    assert listing.send(answered(page([row], None))) == Tell(row)
    with pytest.raises(StopIteration):
        next(listing)
    if method in ("jobs", "audit"):
        return  # without a limit
    listing = getattr(Played(policy()), method)(limit=700)
    next(listing)
    assert listing.send(answered(page([row], "p7"))) == Tell(row)
    next(listing)
    assert listing.send(answered(page([row] * 699, "p3"))) == Tell(row)
    assert [next(listing) for _ in range(698)] == [Tell(row)] * 698
    with pytest.raises(StopIteration):
        next(listing)


def body(request: HttpRequest) -> Any:
    return msgspec.json.decode(request.body or b"{}")


def test_letters_are_counted_replayed_and_dropped() -> None:
    path = f"{V1}/dead-letters"
    counts: Any = Played(policy()).dead_letter_counts(job="j")
    assert next(counts).path == f"{path}?job=j&limit=1"
    assert returned(counts, answered(LetterPage(letters=[LETTER], counts={"failed": 7}, next="x3"))) == {"failed": 7}
    replay = asked("replay", "r1", {"a": il.Secret("pst")}, "mended")
    assert (replay.path, body(replay)) == (
        f"{path}/r1/replay", {"reason": "mended", "payload": {"a": {"$secret": "pst"}}},
    )  # fmt: skip
    assert replay.headers["Idempotency-Key"]
    many = asked("replay_many", code=LetterCode.TIMEOUT)
    assert (many.path, body(many)["code"]) == (f"{path}/replay", "timeout")
    assert asked("drop_dead_letter", "r1") == HttpRequest("DELETE", f"{path}/r1")
    drop: Any = Played(policy()).drop_dead_letters(everything=True)
    first = next(drop)
    assert (first.path, body(first)["all"]) == (f"{path}/drop", True)
    assert drop.send(answered(Dropped(dropped=1000, more=True))) == first
    assert returned(drop, answered(Dropped(dropped=5, more=False))) == 1005


@pytest.mark.behaviour("SEC-7")
def test_a_token_of_one_tenant_verifies_nothing() -> None:
    verifying: Any = Played(policy()).verify_audit()
    assert next(verifying).path == f"{V1}/audit?limit=1000"
    with pytest.raises(il.Forbidden, match="tenant: to verify"):
        verifying.send(answered(AuditPage(entries=[], next=None, head=None)))


@pytest.mark.parametrize(
    ("method", "arguments", "options", "field"),
    [
        *((method, ("r1", reason), {}, "reason") for method in ("approve", "reject")
          for reason in ("", " ", "x" * 501, 5)),
        ("audit", (), {"last": 0}, "limit"),
        ("audit", (), {"last": 1001}, "limit"),
        ("audit", (), {"kind": "odd"}, "kind"),
        ("deliveries", (), {"limit": 0}, "limit"),
        ("deliveries", (), {"limit": "x"}, "limit"),
        ("deliveries", (), {"state": "lost"}, "state"),
        ("deliveries", (), {"id_prefix": "a"}, "id_prefix"),
        ("dead_letters", (), {"limit": 0}, "limit"),
        ("dead_letters", (), {"code": "lost"}, "code"),
        ("dead_letters", (), {"since": "x"}, "since"),
        ("act_on_session", ("", "stop"), {}, "session"),
        ("act_on_session", ("é" * 257, "stop"), {}, "session"),
        ("act_on_session", ("a", "halt"), {}, "action"),
        ("act_on_session", ("\ud800", "stop"), {}, "session"),
        ("act_on_session", ("a", "stop", "a b"), {}, "tenant"),
        ("act", ("web", "kill"), {}, "action"),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused(
    method: str, arguments: tuple[Any, ...], options: dict[str, Any], field: str
) -> None:
    with pytest.raises(il.BadValue, match=f"^{field}: "):
        asked(method, *arguments, **options)
