"""The files of `deploy/` fit each other, the settings that they name, and the page on clusters.

No container is built here: that needs a registry. What is checked is all that can be wrong without one."""

import asyncio
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from interlock.config import resolve
from interlock.config.settings import Address, Settings
from interlock.error import BadUse
from interlock.model.access import Role
from interlock.wiring.node import facts_of
from interlock.wiring.node_links import bus_for_nodes, reach_of
from tests.docs.blocks import ROOT

DEPLOY = ROOT / "deploy"
SERVICE = {
    "image", "build", "init", "read_only", "tmpfs", "cap_drop", "security_opt", "restart", "stop_grace_period",
    "shm_size", "depends_on", "environment", "hostname", "ports", "volumes", "working_dir", "healthcheck", "command",
}  # fmt: skip
"""of the keys that the compose specification has for a service, those that are used"""


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return found


@pytest.fixture(scope="module")
def container() -> str:
    return (DEPLOY / "Containerfile").read_text().replace("\\\n", " ")


def nodes_of(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: one for name, one in compose["services"].items() if "hostname" in one}


def settings_in(compose: dict[str, Any], node: str, folder: Path) -> Settings:
    """Return the settings of a node, with the files of /etc/interlock in this folder."""
    text = (DEPLOY / "app" / "interlock.yaml").read_text().replace("/etc/interlock", str(folder))
    (folder / "interlock.yaml").write_text(text)
    given = {name: f"a-secret-of-{name}" for name in nodes_of(compose)[node]["environment"]}
    return resolve(config=str(folder / "interlock.yaml"), environment=given).settings


def places(service: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for volume in service["volumes"]:
        source, place = volume.split(":")[:2]
        yield place, source


def one(pattern: str, text: str) -> str:
    (found,) = re.findall(pattern, text, re.M)
    return str(found)


def test_every_part_of_the_compose_file_is_declared(compose: dict[str, Any]) -> None:
    assert compose.keys() == {"name", "x-node", "services", "volumes"}
    for name, service in compose["services"].items():
        assert service.keys() <= SERVICE, name
        for place, source in places(service):
            assert (DEPLOY / source).is_dir() if source.startswith(".") else source in compose["volumes"], place
        assert service.get("depends_on", {}).keys() <= compose["services"].keys()
        if "build" in service:
            assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).resolve().is_file()
    for needed, how in nodes_of(compose)["a"]["depends_on"].items():
        assert ("test" in compose["services"][needed].get("healthcheck", {})) is (how["condition"] == "service_healthy")


def test_the_nodes_fit_their_settings_and_their_image(compose: dict[str, Any], container: str, tmp_path: Path) -> None:
    nodes = nodes_of(compose)
    settings = settings_in(compose, "a", tmp_path)
    exposed = {int(port) for port in one(r"^EXPOSE (.*)$", container).split()}
    volume, app = one(r"^VOLUME (.*)$", container), one(r"PYTHONPATH=(\S+)", container)
    assert (
        {Address.checked(node)[0] for node in settings.nodes}
        == {one["hostname"] for one in nodes.values()}
        == set(nodes)
    )
    listening = {Address.checked(place)[1] for place in (settings.http, settings.listen_workers) if place}
    assert listening == exposed
    assert {Address.checked(node)[1] for node in settings.nodes} == {Address.checked(settings.listen_workers or "")[1]}
    assert f":{Address.checked(settings.http)[1]}/readyz" in one(r"^HEALTHCHECK .*$", container)
    assert one(r"^WORKDIR (/var.*)$", container) == volume
    assert one(r"INTERLOCK_CONFIG=(\S+)", container) == f"{app}/interlock.yaml"
    published = []
    for name, node in nodes.items():
        assert node["read_only"]
        assert dict(places(node)) == {volume: name, "/etc/interlock": "certificate", app: "./app"}
        published += [port.split(":") for port in node["ports"]]
    assert {(host, int(inside)) for host, _, inside in published} == {("127.0.0.1", Address.checked(settings.http)[1])}
    assert len({outside for _, outside, _ in published}) == len(nodes)
    database = compose["services"]["db"]["environment"]
    assert f"{database['POSTGRES_USER']}@db/{database['POSTGRES_DB']}?" in settings.database
    assert json.loads(one(r"^CMD (\[\"interlock.*\])$", container))[:2] == ["interlock", "up"]


def test_its_certificate_and_tokens_make_links(
    compose: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in nodes_of(compose)["a"]["environment"]:
        monkeypatch.setenv(name, f"a-secret-of-{name}")
    shell, option, command = compose["services"]["certificate"]["command"]
    for _ in range(2):
        subprocess.run([shell, option, f"umask 077; {command}"], cwd=tmp_path, check=True, capture_output=True)
    settings = settings_in(compose, "a", tmp_path)
    bus = bus_for_nodes(settings)
    assert bus is not None
    for role in (Role.WORKER, Role.GATEWAY):
        reach = reach_of(settings, role)
        assert reach.token == f"a-secret-of-INTERLOCK_{role.upper()}_TOKEN"
        asyncio.run(reach.bus().close())
    said = subprocess.run(
        ["openssl", "x509", "-in", tmp_path / "node.crt", "-noout", "-ext", "subjectAltName"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    assert set(re.findall(r"DNS:(\w+)", said)) == set(nodes_of(compose))
    monkeypatch.syspath_prepend(str(DEPLOY / "app"))
    assert facts_of(settings).roles == ["scheduler", "gateway", "worker"]
    monkeypatch.delenv("INTERLOCK_GATEWAY_TOKEN")
    bare = resolve(config=str(tmp_path / "interlock.yaml"), environment={}).settings
    with pytest.raises(BadUse, match="gateway_token: missing"):
        reach_of(bare, Role.GATEWAY)


def test_the_image_has_what_it_copies_and_every_extra(container: str) -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    for sources in re.findall(r"^COPY (?!--from)(.*) \S+$", container, re.M):
        for source in sources.split():
            assert (ROOT / source).exists()
            assert f"!{source}" in ignored
    locked = re.findall(r"^([a-z][\w.-]*)==", (ROOT / "requirements.lock").read_text(), re.M)
    added = one(r"printf '%s\\n' (.*?) >>", container).split()
    present = set((ROOT / "requirements-run.txt").read_text().split()) | set(added)
    assert present <= set(locked)
    text = (ROOT / "pyproject.toml").read_text()
    for extra in ("grpc", "policy", "postgres"):
        for package in re.findall(r'"([a-z0-9-]+)[><=]', one(rf"^{extra} = \[(.*)\]$", text)):
            assert package in present, f"{package} of the extra {extra}"
