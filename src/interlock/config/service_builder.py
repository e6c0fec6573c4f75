"""Services and groups that a program declares; what is wrong is raised at once, with the field and the value."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from interlock.config.declarations import NEWEST_RUN, NO_NAME, Declared
from interlock.config.faults import Spot
from interlock.config.fields import MEMORY
from interlock.config.run_fields import NOTHING
from interlock.config.service_documents import CONTAINER
from interlock.config.setting_types import Place, did_you_mean
from interlock.model.duration import Duration
from interlock.model.error import BadValue
from interlock.supervision.field_checks import check_command, check_env
from interlock.supervision.spec import (
    NAME,
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
from interlock.worker.service import takes_context


def caller() -> Spot:
    """The line that called the one who asks."""
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
    env: Mapping[str, str | None] | None,
    cwd: str | None,
    restart: str,
    backoff: Backoff | None,
    budget: Budget | None,
    stop_timeout: Duration,
    ready: Ready | None,
    alive: Alive | None,
    limits: Limits | None,
) -> Declared:
    """Exactly one of `function`, `process` and `container` is what it does."""
    _check_name(name)
    given = [field for field, value in (("process", process), ("container", container)) if value is not None]
    if len(given) + (function is not None) != 1:
        raise BadValue("service", [*given, "function"][:2], "one of process, container and a function")
    common: dict[str, Any] = {
        "name": name,
        "restart": restart,
        "backoff": Backoff() if backoff is None else backoff,
        "budget": Budget() if budget is None else budget,
        "stop_timeout": stop_timeout,
        "env": _env(env),
        "ready": ready,
        "alive": alive,
    }
    child: Child
    if container is not None:
        if limits is not None:
            raise BadValue("limits", limits, "for a container, which has memory and cpus of its own")
        child = Container(**common, **_container(container), cwd=cwd)
    else:
        command = check_command("process", process) if process is not None else NOTHING
        folder = os.path.abspath(cwd) if isinstance(cwd, str) and cwd else cwd
        child = Process(**common, command=command, cwd=folder, limits=Limits() if limits is None else limits)
    if function is not None:
        takes_context(name, function)
    return Declared(
        name=name, is_group=False, child=child, group=_group(group), spot=spot, group_spot=spot, function=function
    )


def declare_group(
    name: str,
    spot: Spot,
    *,
    strategy: str,
    group: str | None,
    restart: str,
    backoff: Backoff | None,
    budget: Budget | None,
) -> Declared:
    _check_name(name)
    child = Group(
        name=name,
        strategy=strategy,  # type: ignore[arg-type] # it is checked, and becomes what it should be
        restart=restart,  # type: ignore[arg-type]
        backoff=Backoff() if backoff is None else backoff,
        budget=Budget() if budget is None else budget,
    )
    return Declared(name=name, is_group=True, child=child, group=_group(group), spot=spot, group_spot=spot)


def _check_name(name: object) -> None:
    """Beyond what its child checks."""
    if name == NEWEST_RUN:
        raise BadValue("name", name, NO_NAME)


def _group(group: object) -> str | None:
    if group is None or (isinstance(group, str) and NAME.fullmatch(group)):
        return group
    raise BadValue("group", group, "the name of a group")


def _env(env: Mapping[str, str | None] | None) -> Mapping[str, str | None]:
    """A value that is none is not shown: it may be a secret all the same."""
    try:
        check_env("env", {} if env is None else env)
    except BadValue as error:
        if error.field == "env" and isinstance(env, Mapping):
            raise
        raise BadValue(error.field, "…", "a text, or None to take the variable away") from None
    return {} if env is None else dict(env)


def _container(container: object) -> dict[str, Any]:
    if isinstance(container, str):
        return {"image": container}
    if not isinstance(container, Mapping):
        raise BadValue("container", container, "the name of an image, or a mapping")
    for field in container:
        if field not in CONTAINER:
            raise BadValue("container", field, f"a field of it{did_you_mean(str(field), CONTAINER)}")
    if "image" not in container:
        raise BadValue("container", sorted(container), "complete: image is missing")
    found = dict(container)
    if found.get("memory") is not None:
        found["memory"] = MEMORY.check(found["memory"], Place("container.memory"))
    return found
