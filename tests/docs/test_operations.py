"""What the document on operations shows holds: commands, settings, metrics."""

import re
from pathlib import Path

import msgspec
import pytest

from interlock.config import Settings, resolve
from interlock.config.settings import SETTINGS
from interlock.config.sources import load
from tests.docs.blocks import ROOT, of_language, run_shell
from tests.docs.test_getting_started import GETTING_STARTED, put_files, shell_of
from tests.helpers.server import JOBS, Server

OPERATIONS = "docs/operations.md"


@pytest.mark.behaviour("OBS-3")
def test_the_commands(folder: Path) -> None:
    put_files(GETTING_STARTED, folder)
    (folder / "interlock.yaml").unlink()
    put_files(OPERATIONS, folder)
    said = run_shell(shell_of(OPERATIONS), folder)
    assert re.search(r"^slots\t8\tINTERLOCK_SLOTS$", said, re.M), said
    assert re.search(r"^workers\t2\tflag --workers$", said, re.M), said
    assert said.count('{"ready":true,') == 2, said
    assert said.count("[unauthorized]\nexit code 6\n") == 1, said
    assert said.count("[forbidden]\nexit code 6\n") == 1, said
    assert '"hello world"\n' in said, said
    assert '"tenant":"web"' in said, said
    assert (folder / "copy.db").stat().st_size > 0
    assert "6ca0626e34057737" in said, said


def test_every_setting_is_in_the_full_example_with_its_default(folder: Path) -> None:
    put_files(OPERATIONS, folder)
    resolved = resolve(config=str(folder / "full.yaml"), environment={})
    named = {source for source in resolved.sources if resolved.sources[source].startswith(str(folder))}
    assert {name.partition(".")[0] for name in named} == set(SETTINGS)
    changed = {
        name
        for name in SETTINGS
        if getattr(resolved.settings, name) != getattr(msgspec.structs.replace(Settings(), lanes=LANES), name)
    }
    assert changed == {"app", "socket", "tokens"}
    assert {token.name: (token.role, token.tenant) for token in resolved.settings.tokens} == {
        "board": ("viewer", "*"),
        "ci": ("operator", "default"),
    }


LANES = {"main": 30, "subagent": 50, "team": 100, "cron": 30}


def test_every_yaml_block_of_every_document_is_valid(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for document in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        for variable in re.findall(r"(?:url|secret|token)_env: (\w+)", document.read_text()):
            monkeypatch.setenv(variable, "https://example.com")
        for number, block in enumerate(of_language(str(document.relative_to(ROOT)), "yaml")):
            place = folder / f"{document.stem}-{number}.yaml"
            used = sorted(set(re.findall(r"\bjob: ([\w.]+)", block.text))) if "kind: Workflow" in block.text else []
            stubs = (f"---\nkind: Job\nid: {job}\nrun: {{shell: x}}\n" for job in used)
            place.write_text("".join([block.text, *stubs]))
            if re.search(r"^kind:", block.text, re.M):
                found = load([str(place)])
                declared = (found.children, found.jobs, found.lanes, found.pools, found.tenants)
                assert any(declared) or found.policy
            else:
                assert resolve(config=str(place), environment={}).settings.app == "jobs:app"


@pytest.mark.behaviour("OBS-1")
def test_the_metrics_are_those_that_are_served(folder: Path) -> None:
    text = (ROOT / OPERATIONS).read_text()
    (table,) = re.findall(r"\| name \| type \| labels \|\n.*?\n\n", text, re.S)
    listed: set[str] = set()
    for row in re.findall(r"^\| (`.*?) \|", table, re.M):
        names = re.findall(r"`(\w+)`", row)
        base = names[0].removesuffix("received_total").rstrip("_")
        listed.update(name if name.startswith("interlock") else base + name for name in names)
    with Server(folder, "--http", "local", target=JOBS) as server:
        served = set(re.findall(r"^# TYPE (\w+) ", server.local.get("/metrics").body.decode(), re.M))
    assert listed == served
    for alert in re.findall(r"interlock_\w+", text):
        assert alert in served, alert
