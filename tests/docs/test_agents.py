"""The agent of its page calls tools, is held back by its policy, and passes its own tests."""

import re
from pathlib import Path

import pytest

from tests.docs.blocks import run_shell
from tests.docs.test_getting_started import put_files, shell_of

AGENTS = "docs/agents.md"


@pytest.mark.behaviour("POL-8")
def test_the_agent(folder: Path) -> None:
    assert put_files(AGENTS, folder) == ["agent.py", "policy.yaml", "test_agent.py"]
    tested = "python -m pytest -q -p no:cacheprovider -p no:schemathesis test_agent.py"
    ended = "echo; interlock runs\nkill %1; wait\n"
    said = run_shell(f"{shell_of(AGENTS)}{ended}{tested}\n", folder)
    assert "5 of 5 cases passed" in said, said
    assert "calling read\ncalling send\n" in said, said
    assert re.search(r"tool\.send\t.*a person reads what leaves the house", said), said
    states = dict(re.findall(r"^\w+\t(agent|tool\.\w+)\t(\w+)\t", said.rpartition("calling send")[2], re.M))
    assert states == {"agent": "cancelled", "tool.read": "succeeded", "tool.send": "cancelled"}, said
    assert "2 passed" in said, said
