"""Services and groups of services, each from a document or from an app."""

import os
import sys
from typing import Any

import msgspec

from interlock.config.declarations import Declared
from interlock.config.documents import Document
from interlock.fields.field import Field, Part, fields_of, read_fields, settable
from interlock.fields.field_types import Optional
from interlock.supervision.spec import CHILD_NAME, Child, Container, Group, Process, ServiceRun
from interlock.worker.service import ServiceOptions

NAMES = {
    "id": Field(name="id", kind=CHILD_NAME, description="Name of the service or group."),
    "group": Field(name="group", kind=Optional(CHILD_NAME), description="Group that contains it.", default=None),
}
SERVICE_FIELDS: dict[str, Field] = {
    **NAMES,
    "run": Field(name="run", kind=Part(ServiceRun), description="Process, function or container to run."),
    **settable(Process),
}
GROUP_FIELDS: dict[str, Field] = NAMES | {
    name: field for name, field in settable(Group).items() if name != "stop_timeout"
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


def read_group(document: Document) -> Child:
    return Group(**_named(read_fields(GROUP_FIELDS, document.values, document.place)))


def read_service(document: Document) -> Child:
    fields, run = SERVICE_FIELDS, document.values.get("run")
    if isinstance(run, dict) and "container" in run:
        # The folder is inside the container, and the container has the limits.
        fields = fields | {"cwd": fields_of(Container)["cwd"]}
        if "limits" in document.values:
            document.refuse(
                "limits", "limits: cannot be combined with run.container; use run.container.memory and cpus"
            )
    values = read_fields(fields, document.values, document.place)
    work: ServiceRun = values.pop("run")
    if work.container is not None:
        values.pop("limits", None)
        return Container(**_named(values), **work.container)
    command = work.process
    if work.function is not None:
        command = ServiceOptions(name=values["id"], function=work.function, path=_path()).command()
    return Process(**_named(values), command=command or ())


def _named(values: dict[str, Any]) -> dict[str, Any]:
    return {"name": values["id"]} | {name: value for name, value in values.items() if name not in NAMES}


def declared(document: Document, child: Child | None) -> Declared:
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
