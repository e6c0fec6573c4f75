"""The chat of the page on streaming: its commands, as they stand there, and its test."""

from pathlib import Path

import pytest

from tests.docs.blocks import of_language, run_shell
from tests.docs.test_getting_started import put_files

STREAMING = "docs/streaming.md"
ANSWER = "You asked: What is a fence? Let me think about it."


@pytest.mark.behaviour("RUN-27")
def test_the_example_streams_an_answer(folder: Path) -> None:
    assert put_files(STREAMING, folder) == ["agent.py", "ask.py", "test_agent.py"]
    ask, curl = (block.text for block in of_language(STREAMING, "sh"))
    # On a busy machine the server may take longer to start than the client waits for it.
    ready = "until curl -s --unix-socket interlock.db.http http://localhost/readyz; do sleep 0.1; done"
    ask = ask.replace("&\n", f"&\n{ready}\n")
    read = curl.rstrip().replace("RUN", "$(interlock runs | cut -f1 | tail -n1)")
    tested = "python -m pytest -q -p no:cacheprovider -p no:schemathesis test_agent.py"
    said = run_shell(
        f"{ask}interlock logs --stream latest\n{read} | grep -m1 -A1 'event: chunk'\nkill %1; wait\n{tested}", folder
    )
    assert f"{ANSWER} \n{ANSWER}\n" in said, said
    assert f'{ANSWER} \n{{"tokens":11}}\n' in said, said
    assert 'event: chunk\ndata: {"run_id":"' in said, said
    assert "1 passed" in said, said
