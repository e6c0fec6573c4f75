"""Services and groups declared in a program. A fault raises at once, with the field and the value."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict, Unpack

from interlock.config.declarations import Declared
from interlock.config.faults import Spot
from interlock.error import BadUse, BadValue
from interlock.fields.duration import Duration
from interlock.fields.field_types import Command, FieldPath, Optional, did_you_mean
from interlock.model.work import Limits
from interlock.supervision import spec
from interlock.supervision.spec import Alive, Backoff, Budget, Child, Container, Group, Process, Ready
from interlock.worker.service import takes_context

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
    backoff: Backoff | None
    budget: Budget | None


class ServiceFields(GroupFields, total=False):
    env: Mapping[str, str | None] | None
    cwd: str | None
    stop_timeout: Duration
    ready: Ready | None
    alive: Alive | None
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
    child: Child
    if container is not None:
        if "limits" in options:
            raise BadUse("limits", "cannot be combined with container; use container.memory and container.cpus")
        child = Container(name=name, **options, **_container(container))
    else:
        command = LATER if process is None else Command().check(process, FieldPath("process"))
        child = Process(name=name, command=command, **options | _folder(options))
    if function is not None:
        takes_context(name, function)
    return _declared(child, group, spot, function)


def declare_group(name: str, spot: Spot, strategy: str, **fields: Unpack[GroupFields]) -> Declared:
    options, group = _split(fields, GroupFields.__optional_keys__)
    return _declared(Group(name=name, **options | {"strategy": strategy}), group, spot)


def _split(fields: Mapping[str, Any], known: frozenset[str]) -> tuple[dict[str, Any], object]:
    """Return the options of the child, and its group; refuse the other fields of a child."""
    if unknown := fields.keys() - known:
        raise TypeError(f"unexpected keyword argument {min(unknown)!r}")
    given = {field: value for field, value in fields.items() if value is not None}
    return given, given.pop("group", None)


def _declared(child: Child, group: object, spot: Spot, function: Callable[..., Any] | None = None) -> Declared:
    return Declared(
        name=child.name,
        is_group=isinstance(child, Group),
        child=child,
        group=Optional(spec.CHILD_NAME).check(group, FieldPath("group")),
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
        if field not in spec.CONTAINER_FIELDS:
            raise BadValue("container", field, f"a field of it{did_you_mean(str(field), spec.CONTAINER_FIELDS)}")
    if "image" not in container:
        raise BadUse("container", "image is missing")
    return dict(container)
