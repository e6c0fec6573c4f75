"""What every resource has in common, declared once and asked over HTTP, with both clients and on the command line."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

import interlock as il
from tests.api.tokens import TOKENS, as_
from tests.client import faces
from tests.helpers.http import Answer, path_with
from tests.helpers.server import Server, interlock

NUMBERS = {
    "bad_cursor": (400, 2),
    "bad_value": (400, 2),
    "forbidden": (403, 6),
    "unauthorized": (401, 6),
    "unknown_child": (404, 3),
    "unknown_delivery": (404, 3),
    "unknown_field": (400, 2),
    "unknown_job": (404, 3),
    "unknown_lane": (404, 3),
    "unknown_letter": (404, 3),
    "unknown_run": (404, 3),
    "unknown_worker": (404, 3),
    "usage": (400, 2),
}
"""code of a refusal → its HTTP status and its exit code"""


class Filter(NamedTuple):
    """A question, and the ids in its answer."""

    query: Mapping[str, Any]
    ids: list[str]
    command: tuple[str, ...] | None = None
    """the options of the command line, if they are not those of HTTP; no command asks this if it is empty"""
    call: Mapping[str, Any] | None = None
    """the arguments of the clients, if they are not those of HTTP"""


class Act(NamedTuple):
    """Something that is done with one of the resource; `{}` stands for its id."""

    request: tuple[str, str, Any]
    """method, the rest of the path, and the body"""
    call: tuple[Any, ...] = ()
    """a method of the clients, and its arguments; none has it if it is empty"""
    command: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    """the tokens that may not do it to any"""


@dataclass(frozen=True, kw_only=True)
class Resource:
    path: str
    rows: str
    """the name of the list in an answer"""
    call: str
    """the method of the clients that lists it"""
    command: tuple[str, ...]
    key: str = "id"
    seed: Mapping[str, list[str]]
    """tenant → ids in the order of the list; others may be there"""
    order: list[str]
    """the ids of all tenants in the order of the list"""
    filters: list[Filter] = field(default_factory=list)
    bad: list[Filter] = field(default_factory=list)
    """questions that are refused; `ids` has the code"""
    refused: tuple[str, ...] = ()
    """the tokens that may not look at it at all"""
    unknown: str = ""
    """code of the refusal if there is none of that id; no resource of one tenant is another's"""
    suggests: bool = False
    """whether the refusal names one with a similar id"""
    acts: list[Act] = field(default_factory=list)
    limit: str = "limit"
    """the clients' name for the number wanted; they give all if it is empty"""


class Refusal(Exception):
    def __init__(self, code: str, sentence: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(f"{sentence} [{code}]")
        self.code = code
        self.sentence = sentence
        self.headers = {name: text for name, text in (headers or {}).items() if name != "content-length"}


class Face(Protocol):
    """One way to ask a server. A refusal is raised, once its number and form are checked."""

    def listed(self, token: str, resource: Resource, asked: Filter) -> list[str] | None:
        """Every id of the answer; None if this face cannot ask that."""

    def act(self, token: str, resource: Resource, act: Act, id: str) -> bool:
        """Whether this face can do it."""


class HttpFace:
    def __init__(self, server: Server) -> None:
        self._server = server

    def page(self, token: str, resource: Resource, query: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = _accepted(as_(self._server, token).get(path_with(resource.path, query))).json
        return found

    def pages(self, token: str, resource: Resource, query: Mapping[str, Any]) -> Iterator[list[str]]:
        cursor: dict[str, str] = {}
        while True:
            page = self.page(token, resource, {**query, **cursor})
            yield [row[resource.key] for row in page[resource.rows]]
            if page.get("next") is None:
                return
            cursor = {"cursor": page["next"]}

    def listed(self, token: str, resource: Resource, asked: Filter) -> list[str] | None:
        return [id for page in self.pages(token, resource, asked.query) for id in page]

    def act(self, token: str, resource: Resource, act: Act, id: str) -> bool:
        method, rest, body = act.request
        path = rest.format(quote(id, safe=""))
        _accepted(as_(self._server, token).ask(method, path if path.startswith("/api") else resource.path + path, body))
        return True


def _accepted(answer: Answer) -> Answer:
    if answer.status >= 300:
        assert answer.status == NUMBERS[answer.code][0], answer
        raise Refusal(answer.code, answer.json["detail"], answer.headers)
    return answer


class ClientFace:
    def __init__(self, kind: str, server: Server) -> None:
        self._kind = kind
        self._server = server

    @contextmanager
    def _client(self, token: str) -> Iterator[faces.Face]:
        with faces.face(self._kind, self._server.url, token=TOKENS[token].text) as client:
            try:
                yield client
            except il.InterlockError as error:
                raise Refusal(error.code, str(error)) from error

    def listed(self, token: str, resource: Resource, asked: Filter) -> list[str] | None:
        if asked.call == {}:
            return None
        with self._client(token) as client:
            found: Iterable[Any] = client(resource.call, **(asked.query if asked.call is None else asked.call))
            return [getattr(row, resource.key) for row in found]

    def act(self, token: str, resource: Resource, act: Act, id: str) -> bool:
        if act.call:
            with self._client(token) as client:
                answer = client(*(part.format(id) if isinstance(part, str) else part for part in act.call))
                list(answer if isinstance(answer, Iterator) else ())
        return bool(act.call)


class CommandFace:
    def __init__(self, server: Server) -> None:
        self._server = server

    def printed(self, token: str, *arguments: str) -> str:
        given = {"INTERLOCK_URL": self._server.url, "INTERLOCK_TOKEN": TOKENS[token].text}
        ended = interlock(self._server.folder, *arguments, **given)
        if ended.returncode != 0:
            sentence, code = _told(ended.stderr.splitlines()[-1])
            assert (ended.stdout, ended.returncode) == ("", NUMBERS[code][1]), ended
            raise Refusal(code, sentence)
        return ended.stdout

    def listed(self, token: str, resource: Resource, asked: Filter) -> list[str] | None:
        if asked.command == ():
            return None
        options = asked.command or options_of(asked.query)
        printed = json.loads(self.printed(token, *resource.command, *options, "--json"))
        return [row[resource.key] for row in printed[resource.rows]]

    def act(self, token: str, resource: Resource, act: Act, id: str) -> bool:
        if act.command:
            self.printed(token, *(part.format(id) for part in act.command))
        return bool(act.command)


def _told(line: str) -> tuple[str, str]:
    """Sentence and code of a command's refusal, which is JSON where JSON was asked for."""
    if line.startswith("{"):
        error = json.loads(line)["error"]
        return error["message"], error["code"]
    assert line.startswith("error: "), line
    sentence, _, code = line.removeprefix("error: ").rpartition(" [")
    return sentence, code.rstrip("]")


def options_of(query: Mapping[str, Any]) -> tuple[str, ...]:
    """A question of HTTP as options of a command."""
    return tuple(text for name, value in query.items() for text in (f"--{name.replace('_', '-')}", str(value)))


FACES: dict[str, Callable[[Server], Face]] = {
    "http": HttpFace,
    "Client": lambda server: ClientFace("Client", server),
    "AsyncClient": lambda server: ClientFace("AsyncClient", server),
    "command": CommandFace,
}
