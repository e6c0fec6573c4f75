"""Documents: files of YAML that say what there is to be, one thing in each document, known by its `kind`."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from interlock.config.faults import Faults, Spot
from interlock.config.file import DEFAULT_NAME
from interlock.config.plain_yaml import Part, parts_of, read_text
from interlock.config.setting_types import did_you_mean
from interlock.model.error import BadConfig, shown

ENDINGS = (".yaml", ".yml")

FIELDS: Mapping[str, Sequence[str]] = {
    "Service": (
        "id", "group", "run", "env", "cwd", "restart", "backoff", "budget", "stop_timeout", "ready", "alive", "limits",
    ),
    "Group": ("id", "group", "strategy", "restart", "backoff", "budget"),
    "Job": (
        "id", "schedule", "run", "payload", "lane", "retry", "deadline", "max_runtime", "max_runtime_per_attempt",
        "max_crashes", "grace", "constraints", "env", "cwd", "limits", "stdin",
    ),
}  # fmt: skip
"""the kinds of documents, and the fields that each may have besides `kind`"""


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """One document: what it says, and on which line it says it."""

    kind: str
    file: str
    """as messages call it"""
    values: dict[str, Any]
    lines: dict[str, int]
    """by the path of the value: `id`, `env.PORT`, `run.process[0]`"""
    texts: dict[str, str]
    """by the same, how numbers and truth values were written"""

    @property
    def folder(self) -> str:
        """What paths in it begin at."""
        return os.path.dirname(os.path.abspath(self.file))

    def spot(self, path: str = "") -> Spot:
        """Where a field stands; of one that is missing, where what should have it begins."""
        while path not in self.lines:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return Spot(self.file, self.lines[path])


def read(paths: Sequence[str], faults: Faults | None = None) -> list[Document]:
    """The documents of files, and of those files in folders that end in .yaml or .yml, by name. A file that is named
    twice counts once. Without `faults` to add to, everything that is wrong is raised as one `BadConfig`."""
    found = faults if faults is not None else Faults()
    documents: list[Document] = []
    seen: set[str] = set()
    for path in paths:
        for file in files_of(path, found):
            real = os.path.realpath(file)
            if real not in seen:
                seen.add(real)
                documents += _read_file(file, found)
    if faults is None:
        found.check()
    return documents


def files_of(path: str, faults: Faults) -> Iterator[str]:
    """The file, or those in the folder."""
    if not os.path.isdir(path):
        yield path
        return
    try:
        names = sorted(os.listdir(path))
    except OSError as error:
        faults.add_unread(path, f"{path}: cannot be read ({error.strerror})")
        return
    files = [os.path.join(path, name) for name in names if _is_read(name)]
    files = [file for file in files if not os.path.isdir(file)]
    if not files:
        deeper = any(os.path.isdir(os.path.join(path, name)) for name in names)
        hint = "; folders in it are not looked into" if deeper else ""
        faults.warn(Spot(path), f"there is nothing to read in this folder, no file that ends in .yaml or .yml{hint}")
    yield from files


def _is_read(name: str) -> bool:
    """Hidden files are the leftovers of editors; and the settings may well live in the same folder."""
    return name.endswith(ENDINGS) and not name.startswith(".") and name != DEFAULT_NAME


def _read_file(file: str, faults: Faults) -> Iterator[Document]:
    try:
        yield from parse(read_text(file, file), file, faults)
    except BadConfig as error:
        faults.add_unread(file, str(error))


def parse(text: str, file: str, faults: Faults) -> Iterator[Document]:
    """The documents of a text, without those that are none; raises `BadConfig` where it cannot be read on."""
    for part in parts_of(text, file):
        if part.value is None:  # nothing but comments
            continue
        document = _document(part, file, faults)
        if document is not None:
            yield document
        else:
            faults.incomplete = True


def _document(part: Part, file: str, faults: Faults) -> Document | None:
    spot = Spot(file, part.lines[""])
    if not isinstance(part.value, dict):
        what = "a list" if isinstance(part.value, list) else "a single value"
        faults.add(spot, f"{what} is not a document, which begins with 'kind: {next(iter(FIELDS))}'")
        return None
    kind, known = part.value.get("kind"), ", ".join(FIELDS)
    if kind is None:
        faults.add(spot, f"kind: missing, and it must be given: one of {known}")
        return None
    if not isinstance(kind, str) or kind not in FIELDS:
        hint = did_you_mean(kind, FIELDS) if isinstance(kind, str) else ""
        faults.add(Spot(file, part.lines["kind"]), f"kind: {shown(kind)} is not one of {known}{hint}")
        return None
    return made_of(part, kind, file, faults)


def made_of(part: Part, kind: str, file: str, faults: Faults) -> Document:
    """A document of this kind, with the fields that it may have."""
    values = {name: value for name, value in part.value.items() if name != "kind"}
    document = Document(kind=kind, file=file, values=values, lines=part.lines, texts=part.texts)
    for name in [name for name in values if name not in FIELDS[kind]]:
        hint = did_you_mean(name, FIELDS[kind])
        faults.add(document.spot(name), f"{shown(name)} is not a field of a {kind}{hint}")
        del values[name]
    return document
