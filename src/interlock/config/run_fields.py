"""What services and jobs have alike: which way they are run, the command, the environment, the folder."""

from collections.abc import Sequence
from typing import Any

from interlock.config.fields import Fields
from interlock.model.error import BadValue, shown
from interlock.model.work import FUNCTION
from interlock.supervision.field_checks import check_env, check_text

NOTHING = ("nothing",)
"""in place of a command that is wrong"""


def way_of(fields: Fields, ways: Sequence[str]) -> tuple[str, Any]:
    """Which of the ways is given, and what it says; no way if there is a fault."""
    if fields.given.get("run") is None:
        fields.missing("run")
        return "", None
    before = len(fields.faults)
    given = fields.mapping("run", fields.given["run"], ways)
    if given is None or len(fields.faults) > before:
        return "", None
    if len(given) != 1:
        fields.wrong("run", f"{shown(sorted(given))} is not exactly one of {', '.join(ways)}")
        return "", None
    return next(iter(given.items()))


def function_of(fields: Fields, given: Any) -> str | None:
    """`module:name`, or the whole path of a file in the place of the module."""
    text = fields.text("run.function", given)
    if text is None:
        return None
    if not FUNCTION.fullmatch(text):
        fields.wrong("run.function", f"{shown(text)} is not of the form module:name or path/to/file.py:name")
        return None
    module, _, variable = text.rpartition(":")
    if module.endswith(".py"):
        module = fields.path("run.function", module) or module
    return f"{module}:{variable}"


def env_of(fields: Fields) -> dict[str, str | None]:
    """The values are not shown: some are secrets."""
    given = fields.given.get("env", {})
    if not isinstance(given, dict):
        fields.wrong("env", "'…' is not a mapping of names to texts")
        return {}
    found: dict[str, str | None] = {}
    for name, value in given.items():
        path = f"env.{name}"
        try:
            check_env("env", {name: None})
        except BadValue as error:
            fields.faults.add(fields.document.spot(path), str(error))
            continue
        text = fields.written(path, value)
        if value is not None and (text is None or "\0" in text):
            fields.wrong(path, "'…' is not a text, or null to take the variable away")
        else:
            found[name] = text
    return found


def cwd_of(fields: Fields) -> str | None:
    """As it is written."""
    text = fields.text("cwd", fields.given["cwd"]) if "cwd" in fields.given else None
    if text is not None:
        try:
            check_text("cwd", text, "the path of a folder")
        except BadValue as error:
            fields.refuse("cwd", error)
            return None
    return text


def folder_of(fields: Fields) -> str | None:
    """The same on this machine."""
    text = cwd_of(fields)
    return None if text is None else fields.path("cwd", text)
