"""What the document on constraints shows holds: its jobs are the same in YAML and in Python, and its tests pass."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.config.sources import load, of_app
from interlock.model.guard import EVENTS, FILLED, PARAMETERS, RECHECKED, Action, Check, Constraints, Hook
from interlock.model.job import Job
from interlock.sender.http_transport import signed_headers
from tests.docs.blocks import ROOT, blocks, of_language
from tests.docs.test_services import file_of
from tests.helpers.server import environment

GUARDS = "docs/guards.md"
EXAMPLE = "examples/guarded.yaml"
VARIABLES = {"CHAT_URL": "https://chat.example.com/hook", "OPS_SECRET": "secret"}
PARTS = ("constraints", *EVENTS)  # fields of a job that must be alike


def app_text() -> str:
    """The jobs in Python: all blocks that name no file are one module."""
    return "\n\n".join(block.text for block in of_language(GUARDS, "python") if block.file is None)


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def in_python(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Job]]:
    (folder / "guards_in_python.py").write_text(app_text())
    monkeypatch.syspath_prepend(folder)
    yield {name: one.job for name, one in of_app("guards_in_python:app").definitions.items()}
    del sys.modules["guards_in_python"]


def in_yaml(folder: Path) -> dict[str, Job]:
    written = folder / "guards.yaml"
    written.write_text("---\n".join(block.text for block in of_language(GUARDS, "yaml")))
    return {one.job.id: one.job for one in load([str(written)]).jobs}


def test_jobs_in_yaml_and_in_python_are_alike(folder: Path, variables: None, in_python: dict[str, Job]) -> None:
    written = in_yaml(folder)
    assert len(written) == len(of_language(GUARDS, "yaml")) == 6
    for name, job in written.items():
        assert {part: getattr(job, part) for part in PARTS} == {part: getattr(in_python[name], part) for part in PARTS}


def test_a_missing_variable_is_reported(folder: Path, in_python: dict[str, Job]) -> None:
    assert not os.environ.keys() & VARIABLES.keys()
    with pytest.raises(Exception, match=r"CHAT_URL.* is not set"):
        in_yaml(folder)


def test_the_tests_of_the_document_pass(folder: Path) -> None:
    (folder / "jobs.py").write_text(app_text())
    (folder / "test_jobs.py").write_text(file_of(GUARDS, "test_jobs.py"))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:schemathesis"],
        cwd=folder, env=environment(), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{file_of(GUARDS, 'test_jobs.py').count('def test_')} passed" in done.stdout


def test_every_block_of_python_is_known() -> None:
    assert {block.file for block in of_language(GUARDS, "python")} == {None, "verify.py", "test_jobs.py"}
    assert not [block for block in blocks(GUARDS) if block.language not in ("yaml", "python", "console")]


# The example of https://github.com/standard-webhooks/standard-webhooks.
SECRET, ID, AT = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330
BODY, SIGNATURE = b'{"test": 2432232314}', "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.behaviour("CON-7")
def test_a_signature_is_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, Any] = {}
    exec(file_of(GUARDS, "verify.py"), found)
    is_genuine = found["is_genuine"]
    headers = {"webhook-id": ID, "webhook-timestamp": str(AT), "webhook-signature": f"v2,other {SIGNATURE}"}
    assert not is_genuine(SECRET, headers, BODY), "it is too old"
    monkeypatch.setattr(time, "time", lambda: AT + 299.0)
    assert is_genuine(SECRET, headers, BODY)
    assert not is_genuine(SECRET, headers, BODY + b" ")
    assert not is_genuine(SECRET, headers | {"webhook-id": "another"}, BODY)
    assert not is_genuine(SECRET, headers | {"webhook-timestamp": str(AT + 1)}, BODY)
    assert not is_genuine("another", headers, BODY)
    for secret in (SECRET, "secret"):
        assert is_genuine(secret, signed_headers(ID, AT, BODY, secret), BODY), "as the sender signs"


def table_of(heading: str) -> dict[str, str]:
    """The rows of the first table below a heading: the name in the first column → the row."""
    text = (ROOT / GUARDS).read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return {name: row for row, name in re.findall(r"^(\| `(\w+)`.*)$", text, re.M)}


def test_every_constraint_is_in_the_table() -> None:
    assert table_of("Constraints").keys() == set(Constraints.__struct_fields__) - {"recheck_on_retry"}
    text = (ROOT / GUARDS).read_text()
    assert all(f"`{name}`" in text for name in ("recheck_on_retry", *RECHECKED, *Check.__struct_fields__[1:]))
    assert all(f"`{name}`" in text for name in Hook.__struct_fields__ if name != "url")


def test_every_action_is_in_the_table_with_its_parameters_and_defaults() -> None:
    rows = table_of("Actions")
    assert rows.keys() == set(PARAMETERS)
    defaults = dict(zip(Action.__struct_fields__[1:], Action.__struct_defaults__, strict=True))
    spans = {"delay": "60s", "timeout": "10s", "give_up_after": "24h"}
    assert {name: defaults[name] for name in spans} == {"delay": 60, "timeout": 10, "give_up_after": 86400}
    for action, parameters in PARAMETERS.items():
        shown = rows[action].split("|")[3]
        assert set(re.findall(r"`(\w+)`", shown)) == set(parameters), action
        for name in spans.keys() & set(parameters):
            assert f"`{name}` ({spans[name]})" in shown


def test_every_name_of_a_template_is_listed() -> None:
    assert all(f"`${name}`" in (ROOT / GUARDS).read_text() for name in FILLED)


def test_the_example_needs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    found = load([EXAMPLE])
    assert not found.warnings
    assert not re.search(r"_env:", (ROOT / EXAMPLE).read_text())
    jobs = {one.job.id: one.job for one in found.jobs}
    assert jobs["deploy"].actions("on_constraint_violation")[0].action == "kill_old"
    assert jobs["nightly-backup"].constraints.require_previous_success
