"""The settings of the page on clusters hold."""

from pathlib import Path

import pytest

from interlock.config import resolve
from interlock.model.access import Role
from interlock.wiring.node_links import reach_of
from tests.docs.blocks import of_language

PAGE = "docs/cluster.md"


def test_the_page_on_clusters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = of_language(PAGE, "yaml")
    text = block.text.replace("/etc/interlock", str(tmp_path))
    (tmp_path / "interlock.yaml").write_text(text)
    (tmp_path / "gateway.token").write_text("gateway-0123456789abcdef")
    monkeypatch.chdir(tmp_path)
    settings = resolve(environment={}).settings
    assert {token.name: token.role for token in settings.tokens} == {
        "site": "worker",
        "door": "gateway",
        "ops": "admin",
    }
    assert settings.roles == ["scheduler", "gateway", "worker"]
    reach = reach_of(settings, Role.GATEWAY)
    assert (reach.socket, len(reach.nodes), reach.token) == ("", 3, "gateway-0123456789abcdef")
