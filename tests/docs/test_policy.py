"""Each policy of the document and of the example has cases, and they pass; nothing in it is unexplained."""

from pathlib import Path

import pytest

from interlock.config.sources import load, of_app
from interlock.model.policy.document import Match, PolicyDocument, Rule, ToolFilter
from interlock.model.policy.verdict import PolicyRequest, Ruling
from interlock.policy.cases import run_cases
from interlock.policy.policy import Policy
from tests.docs.blocks import ROOT, of_language

DOCUMENT = "docs/policy.md"
EXAMPLES = [block.text for block in of_language(DOCUMENT, "yaml")]
EVERYTHING = EXAMPLES.pop()


def read(text: str, folder: Path) -> Policy:
    (folder / "policy.yaml").write_text(text)
    loaded = load([str(folder / "policy.yaml")])
    assert loaded.policy is not None
    assert loaded.warnings == []
    return loaded.policy


@pytest.mark.behaviour("POL-2", "POL-12")
@pytest.mark.parametrize("text", EXAMPLES, ids=lambda text: text.split()[3])
def test_each_example_passes_its_cases(text: str, tmp_path: Path) -> None:
    policy = read(text, tmp_path)
    found = list(run_cases(policy, {}))
    assert len(found) >= 2
    assert [(one.case.name, one.verdict) for one in found if not one.passed] == []
    # Every rule decides in some case, so that none is there for nothing.
    assert {rule.id for rule in policy.document.rules} <= {one.verdict.rule for one in found}


def test_the_examples_are_ten_and_show_every_decision() -> None:
    assert len(EXAMPLES) == 1 + 10
    assert set(Ruling) == {one for one in Ruling if f"decision: {one}" in "".join(EXAMPLES)}


def test_all_fields_are_listed(tmp_path: Path) -> None:
    read(EVERYTHING, tmp_path)
    for struct in (PolicyDocument, Rule, Match, ToolFilter):
        for name in struct.__struct_fields__:
            assert f"{name}:" in EVERYTHING


def test_the_example_of_the_demonstration() -> None:
    app = of_app("examples.stream:app")
    files = [str(ROOT / "examples" / name) for name in ("timetable.yaml", "policy.yaml")]
    loaded = load(files, app)
    assert loaded.policy is not None
    assert loaded.warnings == []
    jobs = {one.job.id: one.job for one in app.definitions.values()} | {one.job.id: one.job for one in loaded.jobs}
    assert [one.case.name for one in run_cases(loaded.policy, jobs) if not one.passed] == []
    # It knows every job, so the demonstration goes on as before.
    for job in jobs.values():
        request = PolicyRequest(job=job.id, topic=job.topic or job.id)
        assert loaded.policy.judge(request, None, 0.0).ruling in (Ruling.ALLOW, Ruling.CONSTRAIN)
