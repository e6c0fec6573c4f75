"""Drafts: jobs found in a foreign file, and the job file written from them.

A draft that cannot be carried over becomes a comment, so a written file always passes `interlock check`."""

import os
import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, count
from typing import Any

import msgspec

from interlock.config.documents import Faults, parse
from interlock.config.plain_yaml import scalar
from interlock.config.sources import build
from interlock.error import BadConfig
from interlock.fields.field_types import Span

LONGEST = 300  # characters of the original text in a comment
WIDTH = 110  # of the comments at the top
NO_RETRY = {"max_retries": 0}  # a scheduled job has three by default; no foreign scheduler retries
FOREVER = "36500d"
duration = Span().show


class CannotCarry(Exception):
    """Interlock has no equivalent of something, which the text names."""


class ImportSource(msgspec.Struct, frozen=True, kw_only=True):
    """A foreign file."""

    name: str  # as comments and messages call it
    text: str
    path: str | None  # None for standard input
    folder: str  # folder of the written file, at which its paths begin
    tz: str  # zone of times that name none
    system: bool = False  # whether a crontab has a user before each command


class Draft(msgspec.Struct, kw_only=True):
    """A job on its way into a file."""

    name: str  # proposed id
    origin: str  # place and text in the foreign file
    fields: dict[str, Any] = {}  # of its document, in order
    notes: list[str] = []  # differences in meaning
    obstacles: list[str] = []  # reasons why it stays a comment

    @contextmanager
    def carrying(self) -> Iterator[None]:
        """Record what cannot be carried over, and go on."""
        try:
            yield
        except CannotCarry as obstacle:
            self.obstacles.append(str(obstacle))
        except (TypeError, ValueError, ArithmeticError) as error:  # a foreign value of an unexpected kind
            self.obstacles.append(f"one of its values cannot be read ({error})")

    def set_schedule(self, tz: str = "UTC", **fields: Any) -> None:
        self.fields["schedule"] = fields | ({} if tz in ("UTC", "Etc/UTC") or "every" in fields else {"tz": tz})


class Imported(msgspec.Struct, frozen=True):
    """The jobs of a foreign file."""

    drafts: Sequence[Draft]
    notes: Sequence[str]  # on all of them


def write(title: str, imported: Imported, folder: str, now: float) -> tuple[str, int]:
    """Return the text of a job file, and the number of its jobs."""
    head = [line for text in (title, *imported.notes) for line in textwrap.wrap(text, WIDTH)]
    parts, ids = ["\n".join(map(_comment, head))], set[str]()
    for draft in imported.drafts:
        fields = {"kind": "Job", "id": _id(draft.name, ids), **draft.fields}
        text = "".join(_yaml(name, value, draft) for name, value in fields.items())
        lines = [textwrap.shorten(draft.origin, LONGEST, placeholder=" …"), *draft.notes]
        if not draft.obstacles:
            lines += _check(draft, text, folder, now)
        if draft.obstacles:
            lines += [f"NOT CARRIED OVER: {obstacle}" for obstacle in draft.obstacles]
            lines += text.splitlines() if draft.fields else []
            text = ""
        parts.append("\n".join(map(_comment, lines)) + f"\n{text}".rstrip())
    return "\n---\n".join(parts) + "\n", sum(not draft.obstacles for draft in imported.drafts)


def _comment(text: str) -> str:
    """Return a comment of one line, without characters that YAML refuses."""
    line = "".join(letter if letter.isprintable() else " " if letter.isspace() else "?" for letter in text.rstrip())
    return f"# {line}"


def _id(name: str, ids: set[str]) -> str:
    base = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.")[:100] or "job"
    found = next(name for name in chain([base], (f"{base}-{number}" for number in count(2))) if name not in ids)
    ids.add(found)
    return found


def _check(draft: Draft, text: str, folder: str, now: float) -> list[str]:
    """Add the faults that `interlock check` would report for a document, and return its warnings."""
    faults, file = Faults(), os.path.join(folder, "import.yaml")
    place = re.compile(rf"^{re.escape(file)}(:\d+)?: ")
    try:
        build(list(parse(text, file, faults)), faults, now=now)
    except BadConfig as error:
        draft.obstacles += [place.sub("", line) for line in faults.lines() or [str(error)]]
    return [place.sub("", line) for line in faults.warnings]


def _yaml(name: str, value: Any, draft: Draft) -> str:
    import yaml

    class Dumper(yaml.SafeDumper):  # type: ignore[misc]
        def ignore_aliases(self, data: Any) -> bool:
            return True

        def represent_text(self, text: str) -> Any:
            # YAML 1.1 and our reader differ in which words are numbers.
            style = None if isinstance(scalar(text), str) and text.isprintable() else '"'
            return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, Dumper.represent_text)
    options = {"default_flow_style": True, "sort_keys": False, "allow_unicode": True, "width": 2**20}
    try:
        written: str = yaml.dump({name: value}, Dumper=Dumper, **options)
    except yaml.representer.RepresenterError as error:
        draft.obstacles.append(f"{name}: {getattr(error.args[1], 'text', error.args[1])} cannot be read")
        return f"{name}: …\n"
    return written[1:-2] + "\n"  # without the braces
