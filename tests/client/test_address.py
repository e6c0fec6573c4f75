"""Where a client goes and what it shows there, from its arguments and the environment."""

import logging
from pathlib import Path

import pytest

import interlock as il
from interlock.client.http.address import read_address, read_token
from tests.client.faces import KINDS, face


@pytest.mark.parametrize(
    ("url", "host", "port", "prefix", "secure"),
    [
        ("http://127.0.0.1:8420", "127.0.0.1", 8420, "", False),
        ("http://127.0.0.1:8420/", "127.0.0.1", 8420, "", False),
        ("http://example.org", "example.org", 80, "", False),
        ("https://Jobs.Example.org", "jobs.example.org", 443, "", True),
        ("http://[::1]:8420", "::1", 8420, "", False),
        ("https://example.org/interlock/", "example.org", 443, "/interlock", True),
        ("HTTP://localhost:1", "localhost", 1, "", False),
    ],
)
def test_an_address_is_read(url: str, host: str, port: int, prefix: str, secure: bool) -> None:
    found = read_address(url, {})
    assert (found.host, found.port, found.prefix, found.secure, found.path) == (host, port, prefix, secure, None)


def test_a_socket_is_an_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for url in ("unix:/a/b.http", "unix:///a/b.http"):
        assert read_address(url, {}).path == "/a/b.http"
    assert read_address("unix:b.http", {}).path == str(tmp_path / "b.http")


def test_the_environment_says_where_unless_the_caller_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_address(None, {}).path == str(tmp_path / "interlock.db.http")
    assert read_address(None, {"INTERLOCK_SOCKET": "/run/il.sock"}).path == "/run/il.http"
    assert read_address(None, {"INTERLOCK_SOCKET": "/run/il"}).path == "/run/il.http"
    assert read_address(None, {"INTERLOCK_DATABASE": "/data/x.db"}).path == "/data/x.db.http"
    assert read_address(None, {"INTERLOCK_DATABASE": ":memory:"}).path == str(tmp_path / "interlock.http")
    assert read_address(None, {"INTERLOCK_DATABASE": "x", "INTERLOCK_SOCKET": "/run/il"}).path == "/run/il.http"
    both = {"INTERLOCK_URL": "http://a:1", "INTERLOCK_SOCKET": "/run/il.sock"}
    assert read_address(None, both).host == "a"
    assert read_address("http://b:1", both).host == "b"
    assert read_address(None, {"INTERLOCK_URL": ""}).path is not None


@pytest.mark.parametrize(
    "url",
    ["", "localhost:8420", "http://", "http:///runs", "ftp://host", "http://host:port", "http://host:99999",
     "http://a b", "http://a..b", "http://host/?q=1", "http://host#f", "http://host/a b", "http://[::1", "http://höst", "http://a\nb",
     "unix:", "unix:/" + "x" * 110, 8420, "http://host/\x00"],
)  # fmt: skip
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_address_is_refused(kind: str, url: str) -> None:
    with pytest.raises(il.InterlockError, match="url: ") as caught, face(kind, url):
        pass
    assert caught.value.code == "bad_value"
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://user:hunter2@host", "http://user:hunter2@host:port", "http://hunter2@host"])
def test_a_password_in_an_address_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(il.InterlockError, match="url: 'http://…@host") as caught:
        il.Client(url)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://host/?token=hunter2", "http://host#hunter2", "http://host:port?a=hunter2"])
def test_what_follows_an_address_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(il.InterlockError, match=r"url: 'http://host.*\?…' is not of the form") as caught:
        il.Client(url)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "hüter", "tab\t", 5])
def test_what_cannot_be_a_token_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(il.InterlockError, match="token: '…'") as caught:
        il.Client("http://localhost:1", token=token)
    assert not token or str(token) not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"timeout": 0}, "timeout: 0"),
        ({"timeout": "soon"}, "timeout: 'soon'"),
        ({"patience": -1}, "patience: -1"),
        ({"first_contact": "soon"}, "first_contact: 'soon'"),
        ({"connections": 0}, "connections: 0"),
        ({"connections": "many"}, "connections: 'many'"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_options_that_make_no_sense_are_refused(kind: str, options: dict[str, object], says: str) -> None:
    with pytest.raises(il.InterlockError, match=says), face(kind, "http://localhost:1", **options):
        pass


@pytest.mark.parametrize(
    ("url", "warns"),
    [
        ("http://example.org:8420", True),
        ("http://10.0.0.7:8420", True),
        ("https://example.org", False),
        ("http://localhost:8420", False),
        ("http://127.3.2.1:8420", False),
        ("http://[::1]:8420", False),
        ("unix:/a.http", False),
    ],
)
def test_a_token_that_anybody_could_read_is_warned_of_once(
    url: str, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        with il.Client(url, token="hunter2") as client:
            assert "hunter2" not in repr(client) + str(vars(client))
        il.Client(url).close()
    assert [record.levelname for record in caplog.records] == ["WARNING"] * warns
    assert "hunter2" not in caplog.text


def test_the_token_may_be_in_the_environment() -> None:
    address = read_address("http://localhost:1", {})
    assert read_token(None, address, {"INTERLOCK_TOKEN": "abc"}) == "abc"
    assert read_token("def", address, {"INTERLOCK_TOKEN": "abc"}) == "def"
    assert read_token(None, address, {"INTERLOCK_TOKEN": ""}) is None
    assert read_token(None, address, {}) is None
