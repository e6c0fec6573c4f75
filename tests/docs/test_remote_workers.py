"""The document on workers elsewhere: its five commands make a worker that executes a run."""

from pathlib import Path

from tests.docs.blocks import free_address, run_shell
from tests.docs.test_getting_started import GETTING_STARTED, put_files, shell_of

END = """
kill $(cat /proc/$!/task/$!/children) && wait $!
kill %1 && wait %1
"""


def test_the_commands(folder: Path) -> None:
    put_files(GETTING_STARTED, folder)
    (folder / "interlock.yaml").unlink()
    listen = f"export INTERLOCK_LISTEN_WORKERS={free_address()}\n"
    said = run_shell(listen + shell_of("docs/remote-workers.md") + END, folder)
    assert '"hello world"\n' in said, said
    assert "rack:worker-" in said, said
    assert "refused" not in said, said
