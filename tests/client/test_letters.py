"""Dead letters from Python: the requests of each call."""

from typing import Any

import msgspec
import pytest

import interlock as il
from interlock.client.http.exchange import HttpRequest
from interlock.interface.letter_view import LetterPage, letter_info
from interlock.model.letter import DeadLetter, Dropped, LetterCode
from tests.client.scripted import Played, answered, policy, returned

PATH = "/api/v1/dead-letters"
INFO = letter_info(DeadLetter("r1", 5.0, LetterCode.FAILED, "no", "work", "red"))


def body(request: HttpRequest) -> Any:
    return msgspec.json.decode(request.body or b"{}")


def test_what_is_asked() -> None:
    operations: Any = Played(policy())
    assert next(operations.dead_letter("r1")) == HttpRequest("GET", f"{PATH}/r1")
    asked = operations.dead_letters(code="failed", job="j", tenant="red", since=1, until=2, replayed=False, limit=3)
    assert next(asked).path == f"{PATH}?code=failed&job=j&tenant=red&since=1.0&until=2.0&replayed=false&limit=3"
    counts = operations.dead_letter_counts(job="j")
    assert next(counts).path == f"{PATH}?job=j&limit=1"
    assert returned(counts, answered(LetterPage(letters=[INFO], counts={"failed": 7}, next="x3"))) == {"failed": 7}
    replay = next(operations.replay("r1", {"a": il.Secret("pst")}, "mended"))
    assert replay.path == f"{PATH}/r1/replay"
    assert body(replay) == {"reason": "mended", "payload": {"a": {"$secret": "pst"}}}
    assert replay.headers["Idempotency-Key"]
    many = next(operations.replay_many(code=LetterCode.TIMEOUT))
    assert (many.path, body(many)["code"]) == (f"{PATH}/replay", "timeout")
    assert next(operations.drop_dead_letter("r1")) == HttpRequest("DELETE", f"{PATH}/r1")


def test_pages_are_dropped_until_none_is_left() -> None:
    operations: Any = Played(policy())
    drop = operations.drop_dead_letters(everything=True)
    first = next(drop)
    assert (first.path, body(first)["all"]) == (f"{PATH}/drop", True)
    assert drop.send(answered(Dropped(dropped=1000, more=True))) == first
    assert returned(drop, answered(Dropped(dropped=5, more=False))) == 1005


@pytest.mark.parametrize(
    ("options", "field"), [({"limit": 0}, "limit"), ({"code": "lost"}, "code"), ({"since": "x"}, "since")]
)
def test_bad_arguments_are_refused(options: dict[str, Any], field: str) -> None:
    operations: Any = Played(policy())
    with pytest.raises(il.BadValue, match=f"^{field}: "):
        next(operations.dead_letters(**options))
