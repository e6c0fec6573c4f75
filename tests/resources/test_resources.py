"""Lists, filters, pages, tenants and refusals of every resource: over HTTP, in both clients, on the command line."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import pytest

from tests.api.conftest import guard, sound
from tests.api.tokens import TOKENS, as_
from tests.helpers.audited import audit
from tests.helpers.dead import bury
from tests.helpers.judged import write_policy
from tests.helpers.owed import owe
from tests.helpers.places import clean_folder
from tests.helpers.server import Server
from tests.helpers.services import declare
from tests.resources.resource import FACES, Act, ClientFace, CommandFace, Face, Filter, HttpFace, Refusal, Resource
from tests.resources.seeds import DECLARED, Seeds, seed
from tests.resources.table import NAMES, OTHERS, resources

T = TypeVar("T")
pytestmark = pytest.mark.behaviour("SEC-2")
ALL = Filter({}, [])
KINDS = list(FACES)
WHOLE = ("lanes", "workers", "pools", "tenants", "services")
"""lists without pages"""
PAGED = [name for name in NAMES if name not in WHOLE]
FEW = ("guest", "judge", "stranger")
"""tokens of two tenants, with which the clients and the command line ask"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with clean_folder() as place:
        guard(place)
        (place / "declared.yaml").write_text(DECLARED)
        files = (write_policy(place), str(declare(place)), "declared.yaml")
        server = Server(place, *files, "--drain", "1s", "--workers", "1", "--http", "127.0.0.1:0")
        server.extra = {"BOSS_TOKEN": TOKENS["boss"].text}
        for store in (audit, owe, bury):
            store(server.database)
        with sound(server) as running:
            yield running


@pytest.fixture(scope="module")
def seeds(server: Server) -> Seeds:
    return seed(server)


@pytest.fixture
def resource(name: str, seeds: Seeds) -> Resource:
    return resources(seeds)[name]


@pytest.fixture
def face(kind: str, server: Server) -> Face:
    return FACES[kind](server)


def each(names: list[str], kinds: list[str]) -> pytest.MarkDecorator:
    """Each of these resources in each of these ways."""
    cases = [(name, kind) for name in names for kind in kinds]
    return pytest.mark.parametrize(("name", "kind"), cases)


def known(resource: Resource, face: Face, token: str, asked: Filter = ALL) -> list[str] | None:
    """The ids of an answer that were there from the start; None if this face cannot ask that."""
    found = face.listed(token, resource, asked)
    if found is None:
        return None
    assert len(set(found)) == len(found) or resource.key == "subject", "nothing is listed twice"
    return [id for id in found if id in resource.order]


def outcome(ask: Callable[[], T]) -> tuple[T | None, Refusal | None]:
    """What comes of a question: an answer, or a refusal."""
    try:
        return ask(), None
    except Refusal as error:
        return None, error


def refusal(code: str) -> "pytest.RaisesExc[Refusal]":
    return pytest.raises(Refusal, check=lambda error: error.code == code)


@each(NAMES, KINDS)
def test_everything_is_listed_in_order(resource: Resource, face: Face) -> None:
    assert known(resource, face, "boss") == resource.order


@each(NAMES, ["command"])
def test_a_piped_row_names_each_in_the_list(resource: Resource, kind: str, server: Server) -> None:
    command = CommandFace(server)
    ids = command.listed("boss", resource, ALL)
    rows = [row.split("\t") for row in command.printed("boss", *resource.command).splitlines()]
    assert ids is not None
    assert len(rows) == len(ids)
    assert all(id in row for id, row in zip(ids, rows, strict=True))


@each(NAMES, KINDS)
def test_every_filter_finds_what_it_names(resource: Resource, face: Face) -> None:
    for asked in resource.filters:
        assert known(resource, face, "boss", asked) in (asked.ids, None), asked


@each(PAGED, ["http"])
def test_pages_leave_nothing_out_and_repeat_nothing(resource: Resource, kind: str, server: Server) -> None:
    http = HttpFace(server)
    whole = http.listed("boss", resource, ALL)
    for limit in (1, 2, 3, 1000):
        pages = list(http.pages("boss", resource, {"limit": limit}))
        assert [id for page in pages for id in page] == whole
        assert {len(page) for page in pages[:-1]} <= {limit}
        assert len(pages[-1]) <= limit


@each(PAGED, KINDS)
def test_no_more_are_told_than_are_wanted(resource: Resource, face: Face) -> None:
    whole = face.listed("boss", resource, ALL)
    assert whole is not None
    if isinstance(face, ClientFace) and not resource.limit:
        return  # the clients list all of it
    if isinstance(face, HttpFace):
        assert [row[resource.key] for row in face.page("boss", resource, {"limit": 2})[resource.rows]] == whole[:2]
        return
    wanted = whole[-2:] if resource.limit == "last" else whole[:2]
    assert face.listed("boss", resource, Filter({"limit": 2}, [], call={resource.limit: 2})) == wanted


@each(NAMES, KINDS)
def test_a_token_sees_what_is_of_its_tenant(resource: Resource, face: Face) -> None:
    for token in TOKENS if isinstance(face, HttpFace) else FEW:
        if token in resource.refused:
            with refusal("forbidden") as caught:
                known(resource, face, token)
            assert "may not" in caught.value.sentence or caught.value.sentence.startswith("tenant: ")
        else:
            check_tenant(resource, face, token)


def check_tenant(resource: Resource, face: Face, token: str) -> None:
    tenant = TOKENS[token].tenant
    of_nobody = resource.seed.get("", []) if len(resource.seed) == 1 else []
    expected = resource.order if tenant == "*" else [*of_nobody, *resource.seed.get(tenant, [])]
    assert known(resource, face, token) == expected, token
    for other, ids in resource.seed.items():
        if any("tenant" in asked.query for asked in resource.filters) and other:
            found = known(resource, face, token, Filter({"tenant": other}, []))
            assert found == (ids if tenant in ("*", other) else []), token


@each(NAMES, KINDS)
def test_a_bad_question_is_refused(resource: Resource, face: Face) -> None:
    for asked in resource.bad:
        answer, error = outcome(partial(face.listed, "boss", resource, asked))
        if error is None:
            assert answer is None, asked
        else:
            assert [error.code] == asked.ids, asked
            assert next(iter(asked.query)).replace("_", "-") in error.sentence.replace("_", "-"), asked


@each(NAMES, ["http"])
def test_without_a_token_nothing_is_told(resource: Resource, kind: str, server: Server) -> None:
    answers = [server.http.get(resource.path)]
    for act in resource.acts:
        method, rest, body = act.request
        path = rest.format("x")
        answers.append(server.http.ask(method, path if path.startswith("/api") else resource.path + path, body))
    assert {(answer.status, answer.code) for answer in answers} == {(401, "unauthorized")}


@each(NAMES, KINDS)
def test_who_may_not_act_changes_nothing(resource: Resource, face: Face, server: Server) -> None:
    before = shown(server, resource)
    for act in resource.acts:
        for token in act.refused if isinstance(face, HttpFace) else act.refused[:1]:
            id = (resource.seed.get(TOKENS[token].tenant) or resource.order)[0]
            was_done, error = outcome(partial(face.act, token, resource, act, id))
            assert (not was_done) if error is None else (error.code == "forbidden"), (act, token)
    assert shown(server, resource) == before


@each(NAMES, KINDS)
def test_one_that_does_not_exist_is_like_one_of_another_tenant(resource: Resource, face: Face, server: Server) -> None:
    before = shown(server, resource)
    for act in resource.acts if resource.unknown else []:
        token = "judge" if "clerk" in act.refused else "clerk"
        token = "boss" if token in act.refused else token
        missing = f"{resource.order[0]}x"
        absent = refused_as(resource, face, act, token, missing)
        if absent is not None and resource.suggests:
            assert absent.sentence.endswith(f"did you mean '{resource.order[0]}'?")
        others = resource.seed.get("blue", [])
        if absent is not None and others and token != "boss":
            foreign = refused_as(resource, face, act, token, others[0])
            assert foreign is not None
            assert foreign.sentence == absent.sentence.replace(missing, others[0])
            assert foreign.headers == absent.headers
    assert shown(server, resource) == before


def refused_as(resource: Resource, face: Face, act: Act, token: str, id: str) -> Refusal | None:
    """How it is said that there is none; None if this face cannot do it."""
    was_done, error = outcome(partial(face.act, token, resource, act, id))
    if error is None:
        assert not was_done, act
        return None
    assert error.code == resource.unknown, (act, error)
    return error


def shown(server: Server, resource: Resource) -> list[object]:
    """The resource without what time alone changes."""
    moving = {"oldest_wait", "load", "cpu", "memory", "heard_ago", "skew", "last_run", "next_at", "live", "idle"}
    found = as_(server, "boss").get(resource.path).json[resource.rows]
    kept = [row for row in found if row[resource.key] in resource.order]
    return [{name: value for name, value in row.items() if name not in moving} for row in kept]


@pytest.mark.parametrize("act", OTHERS, ids=lambda act: " ".join(act.request[:2]))
@pytest.mark.parametrize("token", TOKENS)
def test_what_each_token_may_ask_of_no_resource(server: Server, act: Act, token: str) -> None:
    def everything() -> list[list[str]]:
        lists = (as_(server, "boss").get(f"/api/v1/{name}").json[name] for name in ("runs", "jobs", "lanes"))
        return [[row["id"] for row in rows] for rows in lists]

    before = everything()
    answer = as_(server, token).ask(*act.request)
    if token in act.refused:
        assert (answer.status, answer.code) == (403, "forbidden")
        assert "may not" in answer.json["detail"] or answer.json["detail"].startswith("tenant: ")
        assert everything() == before
    else:
        assert answer.status < 300, answer
    assert server.http.ask(*act.request).code == "unauthorized"
