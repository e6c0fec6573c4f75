"""Deliveries from Python: the requests of each call, and both clients against a real server."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

import interlock as il
from interlock.client.http.exchange import HttpRequest
from interlock.model.delivery import DeliveryInfo, DeliveryPage, DeliveryState, info_of
from tests.client.faces import KINDS, Face, face
from tests.client.scripted import Played, Tell, answered, policy
from tests.helpers.owed import DELIVERED, FAILED, PENDING, owe, owed
from tests.helpers.places import clean_folder
from tests.helpers.server import Server

PATH = "/api/v1/deliveries"
INFO = info_of(owed(PENDING))


def page(count: int, following: str | None) -> Any:
    return answered(DeliveryPage(deliveries=[INFO] * count, next=following))


def test_what_is_asked() -> None:
    operations: Any = Played(policy())
    assert next(operations.delivery("d1")) == HttpRequest("GET", f"{PATH}/d1")
    # A repeated request could deliver twice more.
    assert next(operations.redeliver("d1")) == HttpRequest("POST", f"{PATH}/d1/redeliver", once=True)
    asked = operations.deliveries(run="a/b", job="j", tenant="red", state="failed", id_prefix="0123abcd", limit=3)
    assert next(asked).path == f"{PATH}?run=a%2Fb&job=j&tenant=red&state=failed&id_prefix=0123abcd&limit=3"
    assert next(operations.deliveries(state=DeliveryState.PENDING)).path == f"{PATH}?state=pending&limit=500"


def test_pages_follow_each_other_until_the_limit() -> None:
    operations: Any = Played(policy())
    asked = operations.deliveries(limit=700)
    assert next(asked).path == f"{PATH}?limit=500"
    assert asked.send(page(1, "d7")) == Tell(INFO)
    assert next(asked).path == f"{PATH}?limit=500&cursor=d7"
    assert asked.send(page(699, "d3")) == Tell(INFO)
    assert [next(asked) for _ in range(698)] == [Tell(INFO)] * 698
    with pytest.raises(StopIteration):
        next(asked)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": "x"}, "limit"),
        ({"state": "lost"}, "state"),
        ({"id_prefix": "a"}, "id_prefix"),
    ],
)
def test_bad_arguments_are_refused(options: dict[str, Any], field: str) -> None:
    operations: Any = Played(policy())
    with pytest.raises(il.BadValue, match=f"^{field}: "):
        next(operations.deliveries(**options))


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    with clean_folder() as place:
        owe(place / "interlock.db")
        with Server(place, "--http", "127.0.0.1:0", "--drain", "1s") as running:
            yield running


@pytest.fixture(params=KINDS)
def client(request: pytest.FixtureRequest, own: Server) -> Iterator[Face]:
    with face(request.param, own.url) as one:
        yield one


@pytest.mark.behaviour("CON-7")
def test_a_delivery_is_shown_and_repeated(client: Face) -> None:
    found: list[DeliveryInfo] = list(client("deliveries"))
    assert client("delivery", DELIVERED) == found[2]
    again = client("redeliver", FAILED)
    assert msgspec.structs.replace(again, next_at=None) == msgspec.structs.replace(
        found[1], state=DeliveryState.PENDING, tries=again.tries, next_at=None, ended_at=None, status=None, answer="",
        error=again.error,
    )  # fmt: skip
