"""The files of the dashboard: where they are, what a browser may do with them, and what it may keep."""

import gzip
import re
from pathlib import Path

import pytest

from interlock.api.dashboard import Dashboard
from tests.api.tokens import as_
from tests.helpers.http import Http
from tests.helpers.server import Server

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
INDEX = b'<!doctype html><base href="./"><script type="module" src="app-ABCDEF12.js"></script>'
SCRIPT = b"console.log(1);" * 100
BUNDLE = {"index.html": INDEX, "app-ABCDEF12.js": SCRIPT, "icon.svg": b"<svg/>", "dot.png": b"\x89PNG"}


def ask(path: str, **headers: str) -> tuple[int, dict[bytes, bytes], bytes]:
    given = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    status, found, body = Dashboard(BUNDLE).answer("GET", path.encode(), given)
    return status, dict(found), body


def test_a_browser_at_the_top_is_led_to_the_dashboard(http: Http) -> None:
    answer = http.get("/", BROWSER)
    assert (answer.status, answer.headers["location"]) == (302, "ui/"), "relative: a proxy may serve it below a path"
    assert http.get("/").json["dashboard"] == "/ui/"
    assert (http.get("/ui").status, http.get("/ui").headers["location"]) == (308, "ui/")


@pytest.mark.behaviour("SEC-3")
@pytest.mark.parametrize("path", ["/ui/", "/ui/runs/01a1", "/ui/index.html"])
def test_the_page_is_there_without_a_token_and_may_do_little(guarded: Server, path: str) -> None:
    answer = guarded.http.get(path, BROWSER)
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"].split("; ")
    assert {
        "default-src 'none'",
        "script-src 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    } <= set(policy)
    assert not re.search(r"unsafe|https?:|\*", answer.headers["content-security-policy"])
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["cache-control"] == "no-cache"


def test_every_answer_forbids_to_guess_its_type(guarded: Server) -> None:
    boss = as_(guarded, "boss")
    for answer in (boss.get("/api/v1/runs"), boss.get("/nowhere"), guarded.http.get("/api/v1/runs"), boss.get("/docs")):
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_what_has_not_changed_is_not_sent_again(http: Http) -> None:
    first = http.get("/ui/")
    again = http.get("/ui/", {"If-None-Match": first.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    assert http.get("/ui/", {"If-None-Match": '"other"'}).status == 200


@pytest.mark.parametrize(
    ("path", "base"),
    [
        ("/ui/", b"./"),
        ("/ui/runs", b"./"),
        ("/ui/runs/01a1", b"../"),
        ("/ui/sessions/a%2Fb", b"../"),
        ("/ui/a/b/c", b"../../"),
        ("/ui/jobs/app-ABCDEF12.js", b"../"),
    ],
)
def test_every_view_is_the_page_with_the_way_back(path: str, base: bytes) -> None:
    status, headers, body = ask(path)
    assert status == 200
    assert headers[b"content-type"] == b"text/html; charset=utf-8"
    assert body == INDEX.replace(b"./", base)


def test_a_file_whose_name_has_its_hash_is_kept_for_ever() -> None:
    status, headers, body = ask("/ui/app-ABCDEF12.js")
    assert (status, body) == (200, SCRIPT)
    assert headers[b"content-type"] == b"text/javascript; charset=utf-8"
    assert headers[b"cache-control"] == b"public, max-age=31536000, immutable"
    assert ask("/ui/icon.svg")[1][b"cache-control"] == b"no-cache"
    assert ask("/ui/dot.png")[1][b"content-type"] == b"image/png"


def test_text_is_compressed_for_whoever_takes_it() -> None:
    _, headers, body = ask("/ui/app-ABCDEF12.js", accept_encoding="br, gzip;q=0.8")
    assert headers[b"content-encoding"] == b"gzip"
    assert gzip.decompress(body) == SCRIPT
    assert len(body) < len(SCRIPT)
    for refused in ("br", "gzip;q=0", "identity", "gzip;q=0.0"):
        assert b"content-encoding" not in ask("/ui/app-ABCDEF12.js", accept_encoding=refused)[1], refused
    assert b"content-encoding" not in ask("/ui/dot.png", accept_encoding="gzip")[1]


def test_a_file_that_is_not_there_is_not_the_page(http: Http) -> None:
    assert http.get("/ui/app-00000000.js").code == "not_found"
    assert http.get("/uix").code == "not_found"
    assert http.post("/ui/", {}).code == "method_not_allowed"
    assert http.ask("HEAD", "/ui/").body == b""


def test_a_missing_bundle_says_what_to_do() -> None:
    status, headers, body = Dashboard({}).answer("GET", b"/ui/runs/1", {})
    assert status == 503
    assert dict(headers)[b"content-type"] == b"text/html; charset=utf-8"
    assert b"make dashboard" in body


@pytest.mark.behaviour("SEC-3")
def test_a_link_of_another_site_leads_to_the_page_and_to_nothing_else(http: Http) -> None:
    for site in ("cross-site", "same-site"):
        link = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
        assert http.get("/ui/runs/1", link).status == 200
        assert http.get("/api/v1/runs", link).code == "wrong_origin"
        for dest in ("iframe", "script", "image"):
            assert http.get("/ui/", link | {"Sec-Fetch-Dest": dest}).code == "wrong_origin"


def test_the_start_prints_the_link(server: Server) -> None:
    assert f"dashboard: {server.url}/ui/" in server.said


def test_the_wheel_has_the_bundle() -> None:
    import interlock

    assert (Path(interlock.__file__).parent / "dashboard" / "index.html").is_file()
