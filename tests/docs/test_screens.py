"""docs/screens.md has every screen, and each fits its terminal."""

import re

import pytest

from tests.docs.screens import DOCUMENT, LISTED, SIZES

SCREEN = re.compile(r"(\d+) × (\d+):\n\n```text\n\$ interlock (.*)\n((?:.*\n)*?)```\n")


@pytest.mark.parametrize("command", ["up", "up -A jobs:app declared.yaml", *LISTED])
def test_every_screen_is_there_and_fits(command: str) -> None:
    found = [
        (int(columns), int(lines), text)
        for columns, lines, shown, text in _screens()
        if shown == command or (command in LISTED and shown.startswith(f"{command} "))
    ]
    assert [(columns, lines) for columns, lines, _ in found] == list(SIZES)
    for columns, lines, text in found:
        shown = text.splitlines()
        assert 0 < len(shown) <= lines
        assert max(map(len, shown)) <= columns


def _screens() -> list[tuple[str, ...]]:
    return SCREEN.findall(DOCUMENT.read_text())
