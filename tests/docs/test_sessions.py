"""What the document on sessions shows holds."""

import re
from pathlib import Path

from tests.docs.blocks import run_shell
from tests.docs.test_services import followed


def test_the_document_on_sessions(folder: Path) -> None:
    said = run_shell(followed("docs/sessions.md"), folder)
    assert re.findall(r'^"You wrote: (\w+)"$', said, re.M) == ["hello", "again"], said
    assert re.search(r"^session\toptions debounce 0s, cap 3\b", said, re.M), said
    assert "\nYou wrote: wait\n" in said, said
    assert '"result":"You wrote: stop"' in said, said
    assert "--session-option cap: '0' is not a whole number from 1" in said, said
    assert "exit code 2\n" in said, said
    assert re.search(r"^true\tchat:ada\tdefault\t0\t0\t.*\tpaused\t0\t", said, re.M), said
    assert re.search(r"^chat:ada\tdefault\t0\t1\t[0-9.]+\tinterrupt\t", said, re.M), said
    assert re.search(r"^true\tchat:ada\t.*\tpaused\t1\t", said, re.M), said
    assert re.search(r"^false\tchat:ada\t", said, re.M), said
    assert re.search(r'^\{"acted":false,"session":\{"key":"chat:ada",.*"cutoff":"20', said, re.M), said
    assert re.search(r'^\{"key":"chat:ada",.*"paused":false,"generation":1,"cutoff":"20', said, re.M), said
