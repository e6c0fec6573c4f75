"""Services and groups that a program declares; a fault is raised at once, with the field and the value."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from interlock.config.declarations import Declared
from interlock.config.faults import Spot
from interlock.model.error import BadUse, BadValue
from interlock.model.field_types import Command, Optional, Place, did_you_mean
from interlock.supervision.spec import CHILD_NAME, CONTAINER_FIELDS, Child, Container, Group, Process
from interlock.worker.service import takes_context

LATER = ("nothing",)  # in place of a function's command, which is made once it is known how the app is found


def caller() -> Spot:
    """Return the line that called the function which asks."""
    frame = sys._getframe(2)
    file = frame.f_code.co_filename
    here = os.path.relpath(file) if os.path.isabs(file) else file
    return Spot(file if here.startswith("..") else here, frame.f_lineno)


def declare_service(
    name: str,
    spot: Spot,
    *,
    function: Callable[..., Any] | None,
    process: Sequence[str] | None,
    container: str | Mapping[str, Any] | None,
    group: str | None,
    **options: Any,
) -> Declared:
    """Declare a service that runs exactly one of `function`, `process` and `container`. Options are fields of its
    child; None leaves one out."""
    given = [field for field, value in (("process", process), ("container", container)) if value is not None]
    if len(given) + (function is not None) != 1:
        raise BadValue("service", [*given, "function"][:2], "one of process, container and a function")
    options = {field: value for field, value in options.items() if value is not None}
    child: Child
    if container is not None:
        if "limits" in options:
            raise BadUse("limits", "cannot be combined with container; use container.memory and container.cpus")
        child = Container(name=name, **options, **_container(container))
    else:
        command = LATER if process is None else Command().check(process, Place("process"))
        child = Process(name=name, command=command, **options | _folder(options))
    if function is not None:
        takes_context(name, function)
    return _declared(child, group, spot, function)


def declare_group(name: str, spot: Spot, *, group: str | None, **options: Any) -> Declared:
    given = {field: value for field, value in options.items() if value is not None}
    return _declared(Group(name=name, **given), group, spot)


def _declared(child: Child, group: object, spot: Spot, function: Callable[..., Any] | None = None) -> Declared:
    return Declared(
        name=child.name,
        is_group=isinstance(child, Group),
        child=child,
        group=Optional(CHILD_NAME).check(group, Place("group")),
        spot=spot,
        group_spot=spot,
        function=function,
    )


def _folder(options: Mapping[str, Any]) -> dict[str, str]:
    cwd = options.get("cwd")
    return {"cwd": os.path.abspath(cwd)} if isinstance(cwd, str) and cwd else {}


def _container(container: object) -> dict[str, Any]:
    if isinstance(container, str):
        return {"image": container}
    if not isinstance(container, Mapping):
        raise BadValue("container", container, "the name of an image, or a mapping")
    for field in container:
        if field not in CONTAINER_FIELDS:
            raise BadValue("container", field, f"a field of it{did_you_mean(str(field), CONTAINER_FIELDS)}")
    if "image" not in container:
        raise BadUse("container", "image is missing")
    return dict(container)
