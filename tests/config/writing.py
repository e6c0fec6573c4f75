"""Write files of documents for a test, and read them."""

import os
import re
from pathlib import Path

import pytest

from interlock.config.sources import load
from interlock.error import BadConfig
from interlock.supervision import Child

SERVICE = "kind: Service\nid: web\nrun: {process: [web]}\n"
"""the smallest service; a test adds to it from line 4 on"""


def put(text: str | bytes, name: str = "a.yaml") -> str:
    """Write a file in the current folder."""
    if os.path.dirname(name):
        Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return name


def read(text: str | bytes) -> list[Child]:
    return list(load([put(text)]).children)


def refused(*paths: str) -> list[str]:
    """Return the faults of files, line by line: place, field and value, without the rule."""
    with pytest.raises(BadConfig) as caught:
        load(paths)
    return [without_rule(line) for line in str(caught.value).split("\n")]


def without_rule(line: str) -> str:
    match = re.match(r".*?(?: is (?:not|unknown)|: missing)\b", line)
    return match[0] if match else line


def fault(text: str | bytes) -> str:
    """Return the only fault of a file."""
    (line,) = refused(put(text))
    return line
