"""The page on imports shows what the command writes."""

from pathlib import Path

from tests.docs.blocks import of_language, run_shell

IMPORT = "docs/import.md"


def test_the_examples_write_what_is_shown(folder: Path) -> None:
    said = run_shell("".join(block.text for block in of_language(IMPORT, "sh")), folder)
    shown = of_language(IMPORT, "yaml")
    assert len(shown) == 4
    for block in shown:
        assert block.text in said, said
