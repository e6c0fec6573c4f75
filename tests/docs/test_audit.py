"""What the document on the audit shows holds."""

import shlex
from pathlib import Path

import pytest

from tests.docs.blocks import of_language
from tests.helpers.audited import audit
from tests.helpers.server import Server, interlock

DOCUMENT = "docs/audit.md"


@pytest.mark.behaviour("SEC-7")
def test_the_document_on_the_audit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = audit(folder / "interlock.db")
    given = {"RUN": entries[0].subject, "HASH": entries[1].hash}
    with Server(folder, "--drain", "1s", "--http", "local"):
        for block in of_language(DOCUMENT, "sh"):
            for line in block.text.splitlines():
                words = shlex.split(line, comments=True)
                ended = interlock(folder, *(given.get(word, word) for word in words[1:]))
                assert (ended.returncode, ended.stderr) == (0, ""), line
    monkeypatch.chdir(folder)
    (program,) = of_language(DOCUMENT, "python")
    exec(program.text, {})
    exported = Path("audit.jsonl")
    exported.write_text(exported.read_text().replace("clerk", "clark"))
    with pytest.raises(AssertionError, match=r"^1$"):
        exec(program.text, {})
    (shown,) = of_language(DOCUMENT, "text")
    said = interlock(folder, "audit", "verify", "audit.jsonl").stderr
    assert said == shown.text.replace("17", "1")
