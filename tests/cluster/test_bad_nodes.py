"""Nodes that are set up wrongly: each is visible, with what to do."""

import asyncio
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from interlock.config import Settings
from interlock.config.tokens import Token
from interlock.model.access import Role
from interlock.stores.postgres import PostgresStore
from interlock.wiring.node import Node, facts_of
from tests.helpers.places import until
from tests.helpers.postgres import schema, server
from tests.remote.elsewhere import free_port


@pytest.fixture(scope="module")
def led() -> Iterator[str]:
    """The URL of a schema on which the node `other` leads."""

    async def lead(url: str) -> None:
        store = PostgresStore(url)
        await store.open()
        await store.take("main", "other", "token", 1000.0)
        await store.close()

    with server() as url, schema(url) as database:
        asyncio.run(lead(database))
        yield database


@pytest.fixture
def web() -> Iterator[str]:
    """The address of a web server, and no scheduler."""
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{found.server_port}"
        found.shutdown()


@pytest.mark.behaviour("CLU-1")
@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([], "interlock.sock; start one"),
        (["NOBODY"], "(Connection refused)"),
        (["NOBODY", "WEB"], "(Connection refused), WEB (it does not speak TLS as a scheduler does"),
        (["no-such-host.invalid:8421"], "no-such-host.invalid:8421 ("),
    ],
)
async def test_a_node_that_does_not_find_the_leader_says_where_it_looked(
    nodes: list[str],
    words: str,
    led: str,
    web: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It has no `nodes`, wrong ones, or itself alone; or it belongs to another cluster."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("interlock.wiring.node.UNHEARD", 0.0)
    places = {"NOBODY": f"127.0.0.1:{free_port()}", "WEB": web}
    given: dict[str, Any] = {"nodes": [places.get(node, node) for node in nodes], "fingerprint": "sha256:" + "0" * 64}
    settings = Settings(database=led, roles=["gateway"], http="off", gateway_token="gateway-0123456789", **given)
    node = Node(settings, None)
    telling = asyncio.ensure_future(node._announce(None))  # type: ignore[arg-type] # it needs none
    try:
        await until(lambda: "other leads on schema" in caplog.text, "it warns")
    finally:
        telling.cancel()
        await node.stop()
    assert words.replace("WEB", web) in caplog.text
    assert "nodes must have the address" in caplog.text
    assert "another cluster needs a schema of its own" in caplog.text


FILES = {
    "jobs": {"kind": "Job", "id": "more", "run": {"shell": "true"}},
    "lanes": {"kind": "Lane", "id": "narrow", "limit": 3},
    "pools": {"kind": "Pool", "id": "gpu", "topics": ["train.*"]},
    "tenants": {"kind": "Tenant", "id": "acme", "max_running": 3},
    "policy": {"kind": "Policy", "id": "p", "rules": [{"id": "rest", "decision": "allow"}]},
}


@pytest.mark.behaviour("CLU-1")
@pytest.mark.parametrize("part", [*FILES, "tokens", "tokens: secret", "lanes: setting"])
def test_whatever_is_declared_in_another_way_has_another_digest(part: str, tmp_path: Path) -> None:
    token = Token(name="ops", role=Role.ADMIN, token="ops-0123456789abcdef")
    given: dict[str, Any] = {"database": "postgresql:///x", "tokens": [token]}
    changes: dict[str, dict[str, Any]] = {
        "tokens": {"tokens": [token, Token(name="b", role=Role.VIEWER, token="b-0123456789abcdef")]},
        "tokens: secret": {"tokens": [Token(name="ops", role=Role.ADMIN, token="another-0123456789")]},
        "lanes: setting": {"lanes": {"main": 7}},
    }
    if part in FILES:
        (tmp_path / "more.yaml").write_text(yaml.safe_dump(FILES[part]))
        changes[part] = {"files": [str(tmp_path / "more.yaml")]}
    before, after = facts_of(Settings(**given)).digests, facts_of(Settings(**given | changes[part])).digests
    assert facts_of(Settings(**given)).digests == before
    assert {name for name in before if before[name] != after[name]} == {part.partition(":")[0]}
