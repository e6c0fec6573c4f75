"""Services and groups of services from documents, and together with those of an app: the tree that is kept up."""

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from interlock.config.declared import NEWEST_RUN, NO_NAME, Declared, tree_of
from interlock.config.documents import Document, read
from interlock.config.faults import Faults
from interlock.config.fields import NO_VALUE, Fields
from interlock.model.error import BadValue, shown
from interlock.supervision.checks import check_env, check_text
from interlock.supervision.spec import (
    Alive,
    Backoff,
    Budget,
    Child,
    Container,
    Group,
    Limits,
    Process,
    Ready,
)
from interlock.worker.service import ServiceOptions

RUNS = ("process", "function", "container")
CONTAINER = ("image", "command", "volumes", "ports", "network", "user", "memory", "cpus", "engine")
PARTS: Mapping[str, type[msgspec.Struct]] = {
    "backoff": Backoff,
    "budget": Budget,
    "ready": Ready,
    "alive": Alive,
    "limits": Limits,
}
"""fields that are mappings, and what is made of them"""
READ: Mapping[str, str] = {
    **dict.fromkeys(("http", "tcp", "log", "image", "network", "user", "engine"), "text"),
    **dict.fromkeys(("command", "volumes", "ports"), "texts"),
    "memory": "size",
}
"""how fields of mappings are read, where their kind does not know what people write"""
FUNCTION = re.compile(r"([^\W\d]\w*(\.[^\W\d]\w*)*|[^\x00\n]*\.py):[^\W\d]\w*(\.[^\W\d]\w*)*")
NOTHING = ("nothing",)
STAND_INS: Mapping[str, Any] = {"name": "nameless", "command": NOTHING, "image": "nothing"}
"""in place of what must be there and is wrong, to find what else is"""


def load(paths: Sequence[str], declared: Iterable[Declared] = (), target: str = "") -> list[Child]:
    """What the files say, behind what an app that is found at `target` has declared; raises one `BadConfig` for
    everything that is wrong with them."""
    faults = Faults()
    return build(read(paths, faults), declared, target, faults)


def build(
    documents: Iterable[Document],
    declared: Iterable[Declared] = (),
    target: str = "",
    faults: Faults | None = None,
) -> list[Child]:
    """The children of the tree, in the order in which they were declared; raises the faults that were found before
    together with its own."""
    found = faults if faults is not None else Faults()
    every = [_with_command(one, target) for one in declared]
    for document in documents:
        if document.kind in READERS:
            one = READERS[document.kind](Fields(document, found, OPTIONAL))
            if one is not None:
                every.append(one)
    return tree_of(every, found)


def _with_command(declared: Declared, target: str) -> Declared:
    if declared.function is None or declared.child is None:
        return declared
    options = ServiceOptions(name=declared.name, app=target, path=_path())
    child = msgspec.structs.replace(declared.child, command=options.command())
    return msgspec.structs.replace(declared, child=child)


def _path() -> list[str]:
    """Where this process finds modules, for one that may be started in another folder."""
    return [part or os.getcwd() for part in sys.path]


# ── one document ────────────────────────────────────────────────────────────────────────────────────────────────────


OPTIONAL = ("group", "cwd", "ready", "alive")


def _group(fields: Fields) -> Declared | None:
    values = _common(fields) | _parts(fields, "backoff", "budget")
    return _declared(fields, _child(fields, Group, values))


def _service(fields: Fields) -> Declared | None:
    values = _common(fields) | _parts(fields, "backoff", "budget", "ready", "alive") | {"env": _env(fields)}
    run, given = _run(fields)
    child: Child | None
    if run == "container":
        if "limits" in fields.given:
            fields.wrong("limits", "not for a container, which has memory and cpus under run.container")
        values |= _container(fields, given) | {"cwd": _cwd(fields)}
        child = _child(fields, Container, values)
    else:
        values |= _parts(fields, "limits") | {"cwd": _from_folder(fields, _cwd(fields))}
        values["command"] = _command(fields, run, given, values["name"])
        child = _child(fields, Process, values)
    return _declared(fields, child)


READERS: Mapping[str, Callable[[Fields], Declared | None]] = {"Service": _service, "Group": _group}


def _declared(fields: Fields, child: Child | None) -> Declared | None:
    """None if it has no name by which others could mean it."""
    name = fields.written("id", fields.given.get("id"))
    group = fields.text("group", fields.given["group"]) if "group" in fields.given else None
    if name is None:
        fields.faults.incomplete = True
        return None
    document = fields.document
    return Declared(
        name=name,
        is_group=document.kind == "Group",
        child=child if fields.sound else None,
        group=group,
        spot=document.spot("id"),
        group_spot=document.spot("group"),
    )


def _child(fields: Fields, kind: type[Child], values: Mapping[str, Any]) -> Child | None:
    return fields.made(kind, values, fields.before, partial(_place, kind), STAND_INS)


def _place(kind: type[Child], field: str) -> str:
    """Where the document has what is called so in a child."""
    if kind is Container and field in CONTAINER:
        return f"run.container.{field}"
    return {"name": "id", "command": "run.process"}.get(field, field)


def _common(fields: Fields) -> dict[str, Any]:
    """What is no mapping."""
    given = fields.given
    name = None
    if given.get("id") is None:
        fields.missing("id")
    else:
        name = fields.text("id", given["id"])
        if name == NEWEST_RUN:
            fields.wrong("id", f"{shown(name)} is not {NO_NAME}")
    found: dict[str, Any] = {"name": STAND_INS["name"] if name is None else name}
    for field in ("restart", "strategy", "stop_timeout"):
        if given.get(field) is not None:
            found[field] = given[field]
        elif field in given:
            fields.wrong(field, NO_VALUE)
    return found


def _parts(fields: Fields, *names: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in names:
        before = len(fields.faults)
        kind = PARTS[name]
        given = fields.mapping(name, fields.given[name], kind.__struct_fields__) if name in fields.given else None
        if given is not None:
            values = fields.each(name, given, kind, READ)
            made = fields.made(kind, values, before, f"{name}.{{}}".format)
            if made is not None:
                found[name] = made
    return found


def _env(fields: Fields) -> dict[str, str | None]:
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


def _cwd(fields: Fields) -> str | None:
    text = fields.text("cwd", fields.given["cwd"]) if "cwd" in fields.given else None
    if text is not None:
        try:
            check_text("cwd", text, "the path of a folder")
        except BadValue as error:
            fields.refuse("cwd", error)
            return None
    return text


def _from_folder(fields: Fields, path: str | None) -> str | None:
    return None if path is None else os.path.normpath(os.path.join(fields.document.folder, path))


# ── how it is run ───────────────────────────────────────────────────────────────────────────────────────────────────


def _run(fields: Fields) -> tuple[str, Any]:
    """Which of the ways is given, and what it says; no way if there is a fault."""
    if fields.given.get("run") is None:
        fields.missing("run")
        return "", None
    before = len(fields.faults)
    given = fields.mapping("run", fields.given["run"], RUNS)
    if given is None or len(fields.faults) > before:
        return "", None
    if len(given) != 1:
        fields.wrong("run", f"{shown(sorted(given))} is not exactly one of {', '.join(RUNS)}")
        return "", None
    return next(iter(given.items()))


def _command(fields: Fields, run: str, given: Any, name: str) -> Any:
    if run == "process":
        if not isinstance(given, list) or not given:
            return given  # which is no command, as its check will tell
        return fields.texts("run.process", given) or NOTHING
    if run != "function":
        return NOTHING
    text = fields.text("run.function", given)
    if text is None:
        return NOTHING
    if not FUNCTION.fullmatch(text):
        fields.wrong("run.function", f"{shown(text)} is not of the form module:name or path/to/file.py:name")
        return NOTHING
    module, _, variable = text.rpartition(":")
    if module.endswith(".py"):
        module = _from_folder(fields, module) or module
    return ServiceOptions(name=name, function=f"{module}:{variable}", path=_path()).command()


def _container(fields: Fields, given: Any) -> dict[str, Any]:
    path = "run.container"
    known = fields.mapping(path, {"image": given} if isinstance(given, str) else given, CONTAINER)
    if known is None:
        return {"image": STAND_INS["image"]}
    if known.get("image") is None:
        fields.missing(f"{path}.image")
        known.pop("image", None)
    found = {"image": STAND_INS["image"]} | fields.each(path, known, Container, READ)
    if "volumes" in found:
        found["volumes"] = tuple(_volume(fields, one) for one in found["volumes"])
    return found


def _volume(fields: Fields, text: str) -> str:
    """What begins with a dot is a path from the document's folder; other than a path is a volume with a name."""
    outside, separator, inside = text.partition(":")
    return f"{_from_folder(fields, outside)}{separator}{inside}" if outside.startswith(".") else text
