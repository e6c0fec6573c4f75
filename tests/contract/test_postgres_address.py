"""The URL of a database on a server."""

import builtins
import sys
from contextlib import suppress
from typing import Any

import pytest

from interlock.error import CannotOpenDatabase, MissingLibrary
from interlock.fields.sockets import without_password
from interlock.stores.open import open_reader, open_store
from interlock.stores.postgres.address import read_address

SECRETS = [
    "postgresql://ann:s3cret@db.test/runs",
    "postgresql://ann:s3cret@db.test:5433/runs?schema=x",
    "postgresql://ann:a@s3cret@db.test/runs",
    "postgresql://ann:a/s3cret@db.test/runs",
    "postgresql://ann:a?s3cret#b@db.test/runs",
    "postgresql://ann@db.test/runs?password=s3cret&schema=x",
    "postgresql://ann@db.test/runs?schema=x&password=s3cret",
    "postgresql://:s3cret@db.test",
]


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGHOST", "PGSSLMODE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("url", SECRETS)
def test_a_password_is_never_shown(url: str) -> None:
    assert "s3cret" not in without_password(url)
    assert "db.test" in without_password(url)
    shown = ""
    with suppress(CannotOpenDatabase):
        address = read_address(url)
        shown = f"{address!r} {address.shown}"
        assert "s3cret" in address.url, "the server is shown it"
    assert "s3cret" not in shown


@pytest.mark.parametrize("url", ["postgresql://ann:a/s3cret@db.test/runs", "postgresql://ann:s3cret@db.test:x/runs"])
def test_a_url_that_cannot_be_read_does_not_show_it_either(url: str) -> None:
    with pytest.raises(CannotOpenDatabase) as caught:
        read_address(url)
    assert "s3cret" not in str(caught.value)


def test_other_names_of_databases_are_shown_as_they_are() -> None:
    for name in ("interlock.db", ":memory:", "a:b@c.db", "postgresql://ann@db.test:5433/runs?schema=x"):
        assert without_password(name) == name


@pytest.mark.parametrize(
    ("url", "needs_tls"),
    [
        ("postgresql://ann@db.test/runs", True),
        ("postgresql://ann@10.0.0.1:5432/runs", True),
        ("postgresql://ann@[2001:db8::1]:5432/runs", True),
        ("postgresql://localhost,db.test/runs", True),
        ("postgresql:///runs?host=db.test", True),
        ("postgresql://ann@db.test/runs?sslmode=disable", False),
        ("postgresql://ann@db.test/runs?sslmode=verify-full", False),
        ("postgresql://localhost/runs", False),
        ("postgresql://127.0.0.1:5433/runs", False),
        ("postgresql://[::1]/runs", False),
        ("postgresql:///runs?host=/run/postgresql", False),
        ("postgresql://%2Frun%2Fpostgresql/runs", False),
        ("postgresql:///runs", False),
    ],
)
def test_another_host_needs_tls_unless_the_url_says_otherwise(url: str, needs_tls: bool) -> None:
    assert (read_address(url).options.get("ssl") == "require") is needs_tls


def test_the_environment_may_say_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "db.test")
    assert read_address("postgresql:///runs").needs_tls
    monkeypatch.setenv("PGSSLMODE", "prefer")
    assert not read_address("postgresql:///runs").needs_tls


def test_of_several_servers_the_one_that_takes_writes_is_used() -> None:
    assert read_address("postgresql://a.test,b.test:5433/runs").options["target_session_attrs"] == "read-write"
    assert "target_session_attrs" not in read_address("postgresql://a.test/runs").options


def test_the_schema_is_an_option_that_the_driver_does_not_see() -> None:
    address = read_address("postgresql:///runs?schema=blue&host=/run/postgresql")
    assert (address.schema, address.url) == ("blue", "postgresql:///runs?host=%2Frun%2Fpostgresql")
    assert read_address("postgresql:///runs").schema == "interlock"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql:///runs?dbname=x", ["'dbname' is no option"]),
        ("mysql://ann@db.test/runs", ["'mysql' is no kind of database", "use postgresql://"]),
        ("postgresql:///runs?shema=x", ["'shema' is no option", "use host, passfile", "schema"]),
        ("postgresql:///runs?schema=", ["schema has no value"]),
        ("postgresql:///runs?schema=Blue", ["schema: 'Blue'", "lower-case"]),
        ("postgresql:///runs?schema=pg_x", ["schema: 'pg_x'"]),
        ("postgresql:///runs?schema=a%22b", ["schema:"]),
        ("postgresql:///runs?sslmode=on", ["sslmode: 'on' is not one of disable, allow, prefer, require"]),
        ("postgresql:///runs?sslrootcert=/nowhere.crt", ["sslrootcert: there is no file '/nowhere.crt'"]),
        ("postgresql:///runs?pooler=session", ["pooler: 'session' is not transaction"]),
        ("postgresql:///runs?schema", ["cannot be read", "postgresql://USER@HOST:PORT/DATABASE"]),
        ("postgresql://ann@db.test:five/runs", ["cannot be read", "%xx"]),
    ],
)
def test_a_bad_url_is_refused_with_what_to_do(url: str, words: list[str]) -> None:
    with pytest.raises(CannotOpenDatabase) as caught:
        open_store(url)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_the_library_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("interlock.stores.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    found = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "asyncpg":
            raise ImportError(name)
        return found(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    for opened in (open_store, open_reader):
        with pytest.raises(MissingLibrary, match=r"pip install 'interlock\[postgres\]'"):
            opened("postgresql:///runs")
