"""Documents: YAML files that declare jobs and services, one in each document, recognised by its `kind`. All
their faults are reported together, one line each."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from interlock.config.plain_yaml import SETTINGS_NAME, parts_of, read_text
from interlock.error import BadConfig, BadValue, shown
from interlock.fields.field_types import FieldPath

MOST_LINES = 200


class Spot(msgspec.Struct, frozen=True):
    """The place of a declaration: a line of a file, or without a line, any other place."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file

    def says(self, text: str) -> str:
        return f"{self}: {text}" if self.file else text


class Faults:
    """The faults found so far. Readers continue after a fault, so that a person can fix all of them at once."""

    def __init__(self, strict: bool = False, with_env: bool = True) -> None:
        """In strict mode a warning is a fault. With `with_env`, so is an unset variable that a hook names."""
        self.with_env = with_env
        self._found: list[tuple[str, float, str]] = []
        self._strict = strict
        self.warnings: list[str] = []
        self.incomplete = False  # whether something could not be read: a missing declaration may be in it

    def add(self, spot: Spot, text: str) -> None:
        self._found.append((spot.file, spot.line, spot.says(text)))

    def add_unread(self, file: str, message: str) -> None:
        """Record that a file, or the rest of it, could not be read; the message says where."""
        self.incomplete = True
        self._found.append((file, float("inf"), message))

    def warn(self, spot: Spot, text: str) -> None:
        """Record a warning: accepted, but possibly a mistake."""
        if self._strict:
            self.add(spot, text)
        else:
            self.warnings.append(_on_one_line(spot.says(text)))

    def __len__(self) -> int:
        return len(self._found)

    def lines(self) -> list[str]:
        """Return all faults, in the order of the files."""
        return [_on_one_line(text) for _, _, text in sorted(self._found, key=lambda one: one[:2])]

    def check(self, most: int = MOST_LINES) -> None:
        """Raise one error for all faults: a single message, or a count and up to `most` messages below it."""
        lines = self.lines()
        if len(lines) == 1:
            raise BadConfig(lines[0])
        if lines:
            files = len({file for file, _, _ in self._found if file})
            where = f" in {files} file{'s' * (files > 1)}" if files else ""
            rest = [f"… and {len(lines) - most} more"] if len(lines) > most else []
            raise BadConfig("\n".join([f"{len(lines)} faults{where}", *lines[:most], *rest]))


def _on_one_line(text: str) -> str:
    return " ".join(text.splitlines())


ENDINGS = (".yaml", ".yml")


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """One document: its values, and the line of each."""

    kind: Any
    file: str = ""  # as messages call it; empty for the body of a request
    values: dict[str, Any]
    lines: dict[str, int]  # path of a value → its line: `id`, `env.PORT`, `run.process[0]`
    texts: dict[str, str]  # path → a number or truth value as written
    faults: Faults

    @property
    def place(self) -> FieldPath:
        return FieldPath("", document=self)

    def spot(self, path: str = "") -> Spot:
        """Return the place of a field; for a missing one, the beginning of the mapping that lacks it."""
        while path not in self.lines:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return Spot(self.file, self.lines[path])

    def refuse(self, path: str, message: str) -> None:
        self.faults.add(self.spot(path), message)

    def path(self, path: str, text: str) -> str:
        """Return a path relative to the folder of the file; a request must give an absolute one."""
        if not self.file and not os.path.isabs(text):
            raise BadValue(path, text, "an absolute path")
        return os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(self.file)), text))


def from_values(kind: str, name: str, values: Mapping[str, Any], faults: Faults, file: str = "") -> Document:
    """Return the document of a request or a program. It may leave out its kind and id, but not contradict them."""
    body = {key: value for key, value in values.items() if key != "kind"}
    document = Document(kind=kind, file=file, values=body | {"id": name}, lines={"": 0}, texts={}, faults=faults)
    for key, expected in (("kind", kind), ("id", name)):
        if values.get(key, expected) != expected:
            document.refuse(key, f"{key}: {shown(values[key])} is not {shown(expected)}; correct it or leave it out")
    return document


def read(paths: Sequence[str], faults: Faults) -> list[Document]:
    """Read the documents of files, and of the .yaml and .yml files in folders, in order of name. Read a file given
    twice only once."""
    documents: list[Document] = []
    seen: set[str] = set()
    for path in paths:
        for file in files_of(path, faults):
            real = os.path.realpath(file)
            if real not in seen:
                seen.add(real)
                documents += _read_file(file, faults)
    return documents


def files_of(path: str, faults: Faults) -> Iterator[str]:
    """Return the file, or those in the folder."""
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
        hint = "; subfolders are not searched" if deeper else ""
        faults.warn(Spot(path), f"no file in this folder ends in .yaml or .yml{hint}")
    yield from files


def _is_read(name: str) -> bool:
    """Leave out hidden files, which editors leave behind, and the settings file, which may be in the folder."""
    return name.endswith(ENDINGS) and not name.startswith(".") and name != SETTINGS_NAME


def _read_file(file: str, faults: Faults) -> Iterator[Document]:
    try:
        yield from parse(read_text(file, file), file, faults)
    except BadConfig as error:
        faults.add_unread(file, str(error))


def parse(text: str, file: str, faults: Faults) -> Iterator[Document]:
    """Yield the documents of a text; raise `BadConfig` at the first that cannot be read."""
    for part in parts_of(text, file):
        if isinstance(part.value, dict):
            values = {name: value for name, value in part.value.items() if name != "kind"}
            kind = part.value.get("kind")
            yield Document(kind=kind, file=file, values=values, lines=part.lines, texts=part.texts, faults=faults)
        elif part.value is not None:  # more than comments
            what = "a list" if isinstance(part.value, list) else "a single value"
            faults.add(Spot(file, part.lines[""]), f"{what} is not a document; begin it with 'kind: Job'")
            faults.incomplete = True
