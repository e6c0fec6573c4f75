"""Pages for people, and HEAD for probes."""

import re
from html.parser import HTMLParser

import pytest

from tests.helpers.http import Http
from tests.helpers.server import Server


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: set[str] = set()
        self.sources: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag not in ("meta", "input", "link"):
            self.open.append(tag)
        self.ids.add(given.get("id") or "")
        self.sources += [given[name] or "" for name in ("src", "href") if name in given]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_top_leads_to_everything(http: Http) -> None:
    links = http.get("/").json
    assert links["docs"] == "/docs"
    for name in ("docs", "openapi", "health", "readiness", "metrics"):
        assert http.get(links[name]).status == 200


def test_the_viewer_is_whole_and_needs_nothing_from_elsewhere(http: Http) -> None:
    answer = http.get("/docs")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    text = answer.body.decode()
    page = Page(text)
    assert page.open == []
    assert page.sources == ["/openapi.json"]
    assert not re.search(r"https?://|//\w+\.\w", text)
    assert {"token", "intro", "operations", "types"} <= page.ids
    assert set(re.findall(r'getElementById\("(\w+)"\)', text)) <= page.ids


def test_the_pages_need_no_token(guarded: Server) -> None:
    assert [guarded.http.get(path).status for path in ("/", "/docs", "/openapi.json")] == [200, 200, 200]


@pytest.mark.behaviour("OBS-3")
@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json", "/docs", "/"])
def test_head_answers_like_get_without_a_body(guarded: Server, path: str) -> None:
    head, get = guarded.http.ask("HEAD", path), guarded.http.get(path)
    assert (head.status, head.body) == (get.status, b"")
    assert head.headers["content-type"] == get.headers["content-type"]
