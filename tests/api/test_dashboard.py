"""The files of the dashboard: where they are, what a browser may do with them, and what it may keep."""

import gzip
import re
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from interlock.api.dashboard import Dashboard
from tests.api.tokens import as_
from tests.helpers.http import Http
from tests.helpers.server import ROOT, Server
from tools import dashboard_types

BUILT = ROOT / "src" / "interlock" / "dashboard"
BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
INDEX = b'<!doctype html><base href="./"><script type="module" src="app.js"></script>'
SCRIPT = b"console.log(1);" * 100
BUNDLE = {"index.html": INDEX, "app.js": SCRIPT, "icon.svg": b"<svg/>"}


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
        ("/ui/jobs/app.js", b"../"),
    ],
)
def test_every_view_is_the_page_with_the_way_back(path: str, base: bytes) -> None:
    status, headers, body = ask(path)
    assert status == 200
    assert headers[b"content-type"] == b"text/html; charset=utf-8"
    assert body == INDEX.replace(b"./", base)


def test_a_file_has_its_type_and_is_asked_for_again() -> None:
    status, headers, body = ask("/ui/app.js")
    assert (status, body) == (200, SCRIPT)
    assert headers[b"content-type"] == b"text/javascript; charset=utf-8"
    assert headers[b"cache-control"] == b"no-cache"
    assert ask("/ui/icon.svg")[1][b"content-type"] == b"image/svg+xml; charset=utf-8"


def test_text_is_compressed_for_whoever_takes_it() -> None:
    _, headers, body = ask("/ui/app.js", accept_encoding="br, gzip;q=0.8")
    assert headers[b"content-encoding"] == b"gzip"
    assert gzip.decompress(body) == SCRIPT
    assert len(body) < len(SCRIPT)
    for refused in ("br", "gzip;q=0", "identity", "gzip;q=0.0"):
        assert b"content-encoding" not in ask("/ui/app.js", accept_encoding=refused)[1], refused


def test_a_file_that_is_not_there_is_not_the_page(http: Http) -> None:
    assert http.get("/ui/other.js").code == "not_found"
    assert http.get("/uix").code == "not_found"
    assert http.post("/ui/", {}).code == "method_not_allowed"
    assert http.ask("HEAD", "/ui/").body == b""


@pytest.mark.behaviour("SEC-3")
def test_a_link_of_another_site_leads_to_the_page_and_to_nothing_else(http: Http) -> None:
    for site in ("cross-site", "same-site"):
        link = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
        assert http.get("/ui/runs/1", link).status == 200
        assert http.get("/", link | {"Accept": "text/html"}).status == 302
        assert http.get("/api/v1/runs", link).code == "wrong_origin"
        for dest in ("iframe", "script", "image"):
            assert http.get("/ui/", link | {"Sec-Fetch-Dest": dest}).code == "wrong_origin"


def test_the_start_prints_the_link(server: Server) -> None:
    assert f"dashboard: {server.url}/ui/" in server.said


def test_the_wheel_has_the_bundle(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    wheel = ZipFile(next(tmp_path.iterdir()))
    for file in BUILT.iterdir():
        assert wheel.read(f"interlock/dashboard/{file.name}") == file.read_bytes()


def test_types_and_columns_are_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for name, text in dashboard_types.texts().items():
        file = dashboard_types.FOLDER / name
        assert text == file.read_text(), "write them again with: python -m tools.dashboard_types"


def test_the_bundle_is_small() -> None:
    sizes = {file.name: len(gzip.compress(file.read_bytes(), 9)) for file in BUILT.iterdir()}
    first = sum(size for name, size in sizes.items() if not name.startswith("graph"))
    assert first <= 120 * 1024, sizes
    assert sum(sizes.values()) - first <= 25 * 1024, sizes


def test_no_file_names_an_address_to_fetch_from() -> None:
    found = (ROOT / "dashboard" / "package-lock.json").read_text()
    assert "resolved" not in found
    for file in BUILT.iterdir():
        addresses = set(re.findall(rb"https?://[\w./-]+", file.read_bytes()))
        assert addresses <= {
            b"http://www.w3.org/2000/svg",
            b"http://www.w3.org/1998/Math/MathML",
            b"http://www.w3.org/1999/xhtml",
        }


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_the_bundle_is_what_the_sources_make(tmp_path: Path) -> None:
    for name in (".npmrc", "package.json", "package-lock.json", "tsconfig.json", "build.mjs"):
        shutil.copy(ROOT / "dashboard" / name, tmp_path)
    shutil.copytree(ROOT / "dashboard" / "src", tmp_path / "src")
    for command in (
        ["npm", "ci", "--ignore-scripts", "--prefer-offline"],
        ["npm", "run", "check"],
        ["node", "build.mjs", "built"],
    ):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    fresh = {file.name: file.read_bytes() for file in (tmp_path / "built").iterdir()}
    assert fresh == {file.name: file.read_bytes() for file in BUILT.iterdir()}, "build it again with: make dashboard"
