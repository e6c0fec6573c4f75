"""Files of documents for a test, and what is made of them."""

import os
from pathlib import Path

import pytest

from interlock.config.sources import load
from interlock.model.error import BadConfig
from interlock.supervision import Child

SERVICE = "kind: Service\nid: web\nrun: {process: [web]}\n"
"""the smallest there is; what a test adds begins on line 4"""


def put(text: str | bytes, name: str = "a.yaml") -> str:
    """Write a file in the current folder."""
    if os.path.dirname(name):
        Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return name


def read(text: str | bytes) -> list[Child]:
    return list(load([put(text)]).children)


def refused(*paths: str) -> list[str]:
    """What is said of files, line by line."""
    with pytest.raises(BadConfig) as caught:
        load(paths)
    return str(caught.value).split("\n")


def fault(text: str | bytes) -> str:
    """The only thing that is wrong with a file."""
    (line,) = refused(put(text))
    return line
