"""Services and groups of services, each from a document, from an app, or declared in a program."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict, Unpack

import msgspec

from interlock.config.declarations import Declared
from interlock.config.documents import Document, Spot
from interlock.error import BadUse, BadValue
from interlock.fields.duration import Duration
from interlock.fields.field import Field, Nested, fields_of, read_fields, settable
from interlock.fields.field_types import Command, FieldPath, Optional, did_you_mean
from interlock.model.work import Limits
from interlock.supervision import spec
from interlock.worker.service import ServiceOptions, takes_context

NAMES = {
    "id": Field(name="id", kind=spec.CHILD_NAME, description="Name of the service or group."),
    "group": Field(name="group", kind=Optional(spec.CHILD_NAME), description="Group that contains it.", default=None),
}
SERVICE_FIELDS: dict[str, Field] = {
    **NAMES,
    "run": Field(name="run", kind=Nested(spec.ServiceRun), description="Process, function or container to run."),
    **settable(spec.Process),
}
GROUP_FIELDS: dict[str, Field] = NAMES | {
    name: field for name, field in settable(spec.Group).items() if name != "stop_timeout"
}


def with_command(declared: Declared, target: str) -> Declared:
    """Return a declaration of an app found at `target`; one of a function gets its command."""
    if declared.function is None or declared.child is None:
        return declared
    options = ServiceOptions(name=declared.name, app=target, path=_path())
    child = msgspec.structs.replace(declared.child, command=options.command())
    return msgspec.structs.replace(declared, child=child)


def _path() -> list[str]:
    """Return the module path of this process, for one that may start in another folder."""
    return [part or os.getcwd() for part in sys.path]


def read_group(document: Document) -> spec.Child:
    return spec.Group(**_named(read_fields(GROUP_FIELDS, document.values, document.place)))


def read_service(document: Document) -> spec.Child:
    fields, run = SERVICE_FIELDS, document.values.get("run")
    if isinstance(run, dict) and "container" in run:
        # The folder is inside the container, and the container has the limits.
        fields = fields | {"cwd": fields_of(spec.Container)["cwd"]}
        if "limits" in document.values:
            document.refuse(
                "limits", "limits: cannot be combined with run.container; use run.container.memory and cpus"
            )
    values = read_fields(fields, document.values, document.place)
    work: spec.ServiceRun = values.pop("run")
    if work.container is not None:
        values.pop("limits", None)
        return spec.Container(**_named(values), **work.container)
    command = work.process
    if work.function is not None:
        command = ServiceOptions(name=values["id"], function=work.function, path=_path()).command()
    return spec.Process(**_named(values), command=command or ())


def _named(values: dict[str, Any]) -> dict[str, Any]:
    return {"name": values["id"]} | {name: value for name, value in values.items() if name not in NAMES}


def declared(document: Document, child: spec.Child | None) -> Declared:
    """Return the declaration of a document; without a child if it has a fault."""
    name, group = (document.place.at(field).text(document.values.get(field)) for field in NAMES)
    return Declared(
        name=str(name),
        is_group=document.kind == "Group",
        child=child,
        group=group if isinstance(group, str) else None,
        spot=document.spot("id"),
        group_spot=document.spot("group"),
    )


LATER = ("nothing",)  # stands for a function's command until the app's import path is known


def caller() -> Spot:
    """Return the line that called the caller of this function."""
    frame = sys._getframe(2)
    file = frame.f_code.co_filename
    here = os.path.relpath(file) if os.path.isabs(file) else file
    return Spot(file if here.startswith("..") else here, frame.f_lineno)


class GroupFields(TypedDict, total=False):
    """Options of groups and services. None leaves one out."""

    group: str | None
    restart: str
    backoff: spec.Backoff | None
    budget: spec.Budget | None


class ServiceFields(GroupFields, total=False):
    env: Mapping[str, str | None] | None
    cwd: str | None
    stop_timeout: Duration
    ready: spec.Ready | None
    alive: spec.Alive | None
    limits: Limits | None


def declare_service(
    name: str,
    spot: Spot,
    function: Callable[..., Any] | None,
    process: Sequence[str] | None,
    container: str | Mapping[str, Any] | None,
    **fields: Unpack[ServiceFields],
) -> Declared:
    """Declare a service that runs exactly one of `function`, `process` and `container`."""
    given = [field for field, value in (("process", process), ("container", container)) if value is not None]
    if len(given) + (function is not None) != 1:
        rule = f"{' and '.join([*given, 'a function'][:2])} are given together" if given else "is empty"
        raise BadUse("service", f"{rule}; give exactly one of process, container and a function")
    options, group = _split(fields, ServiceFields.__optional_keys__)
    child: spec.Child
    if container is not None:
        if "limits" in options:
            raise BadUse("limits", "cannot be combined with container; use container.memory and container.cpus")
        child = spec.Container(name=name, **options, **_container(container))
    else:
        command = LATER if process is None else Command().check(process, FieldPath("process"))
        if isinstance(cwd := options.get("cwd"), str) and cwd:
            options["cwd"] = os.path.abspath(cwd)
        child = spec.Process(name=name, command=command, **options)
    if function is not None:
        takes_context(name, function)
    return _declared(child, group, spot, function)


def declare_group(name: str, spot: Spot, strategy: str, **fields: Unpack[GroupFields]) -> Declared:
    options, group = _split(fields, GroupFields.__optional_keys__)
    return _declared(spec.Group(name=name, **options | {"strategy": strategy}), group, spot)


def _split(fields: Mapping[str, Any], known: frozenset[str]) -> tuple[dict[str, Any], object]:
    """Return the options of the child, and its group; refuse the other fields of a child."""
    if unknown := fields.keys() - known:
        raise TypeError(f"unexpected keyword argument {min(unknown)!r}")
    given = {field: value for field, value in fields.items() if value is not None}
    return given, given.pop("group", None)


def _declared(child: spec.Child, group: object, spot: Spot, function: Callable[..., Any] | None = None) -> Declared:
    return Declared(
        name=child.name,
        is_group=isinstance(child, spec.Group),
        child=child,
        group=Optional(spec.CHILD_NAME).check(group, FieldPath("group")),
        spot=spot,
        group_spot=spot,
        function=function,
    )


def _container(container: object) -> dict[str, Any]:
    if isinstance(container, str):
        return {"image": container}
    if not isinstance(container, Mapping):
        raise BadValue("container", container, "the name of an image, or a mapping")
    for field in container:
        if field not in spec.CONTAINER_FIELDS:
            raise BadValue("container", field, f"a field of it{did_you_mean(str(field), spec.CONTAINER_FIELDS)}")
    if "image" not in container:
        raise BadUse("container", "image is missing")
    return dict(container)
