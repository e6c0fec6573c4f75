"""`tools.footprint` counts the files of the package that a commit touches."""

import subprocess
from pathlib import Path

import pytest

from tools import footprint


def test_files_of_the_package_are_listed_without_tests_and_generated_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def commit(subject: str, **texts: str) -> None:
        for name, text in texts.items():
            path = tmp_path / name.replace("__", "/").replace("_py", ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        author = ["-c", "user.name=ann", "-c", "user.email=ann@example.com"]
        subprocess.run(["git", "add", "."], check=True)
        subprocess.run(["git", *author, "commit", "-qm", subject], check=True)

    subprocess.run(["git", "init", "-q"], check=True)
    commit("Begin", src__a_py="1", docs__b_md="1")
    commit("Go on", src__a_py="2", src__c_py="1", tests__d_py="1", src__interlock__policy_service__policy_pb2_py="1")
    assert footprint.files("HEAD") == [("edited", "src/a.py"), ("created", "src/c.py")]
    assert footprint.report("HEAD").splitlines()[0].endswith("Go on: 2 files")
