"""Services and groups of services, each from a document or from an app."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import msgspec

from interlock.config.declarations import NEWEST_RUN, NO_NAME, Declared
from interlock.config.fields import NO_VALUE, Fields
from interlock.config.run_fields import NOTHING, cwd_of, env_of, folder_of, function_of, way_of
from interlock.model.error import shown
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
STAND_INS: Mapping[str, Any] = {"name": "nameless", "command": NOTHING, "image": "nothing"}
"""in place of what must be there and is wrong, to find what else is"""


def declared_in(app: Iterable[Declared], target: str) -> list[Declared]:
    """What an app that is found at `target` has declared."""
    return [_with_command(one, target) for one in app]


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
    values = _common(fields) | _parts(fields, "backoff", "budget", "ready", "alive") | {"env": env_of(fields)}
    run, given = way_of(fields, RUNS)
    child: Child | None
    if run == "container":
        if "limits" in fields.given:
            fields.wrong("limits", "not for a container, which has memory and cpus under run.container")
        values |= _container(fields, given) | {"cwd": cwd_of(fields)}
        child = _child(fields, Container, values)
    else:
        values |= _parts(fields, "limits") | {"cwd": folder_of(fields)}
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
    made = {name: fields.part(name, PARTS[name], READ) for name in names if name in fields.given}
    return {name: one for name, one in made.items() if one is not None}


# ── how it is run ───────────────────────────────────────────────────────────────────────────────────────────────────


def _command(fields: Fields, run: str, given: Any, name: str) -> Any:
    if run == "process":
        if not isinstance(given, list) or not given:
            return given  # which is no command, as its check will tell
        return fields.texts("run.process", given) or NOTHING
    if run != "function":
        return NOTHING
    function = function_of(fields, given)
    return NOTHING if function is None else ServiceOptions(name=name, function=function, path=_path()).command()


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
    return f"{fields.path('run.container.volumes', outside)}{separator}{inside}" if outside.startswith(".") else text
