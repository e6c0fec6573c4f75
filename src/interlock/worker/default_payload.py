"""What a job is given when nobody says otherwise: checked when it is defined, not when its time comes."""

from collections.abc import Mapping
from typing import Any

import msgspec

from interlock.model import payload
from interlock.model.error import BadPayload, BadValue
from interlock.worker.definition import Definition


def own_payload(given: object) -> dict[str, Any] | None:
    """As JSON has it, secrets marked."""
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise BadValue("payload", "…", "a mapping of arguments")
    found: dict[str, Any] = msgspec.json.decode(payload.encode(dict(given), "payload"))
    return found


def settled(definition: Definition) -> Definition:
    """With its own payload checked, and marked where the handler takes a secret. A job that runs by itself and has none
    must do without."""
    own = definition.job.payload
    if own is None:
        if definition.job.schedule is not None:
            _check_needs_none(definition)
        return definition
    data = payload.encode(own, "payload")
    definition.check(data)
    if definition.job.secrets:
        marked = msgspec.json.decode(definition.mark(data))
        definition.job = msgspec.structs.replace(definition.job, payload=marked, version="")
    return definition


def _check_needs_none(definition: Definition) -> None:
    try:
        definition.check(payload.EMPTY)
    except BadPayload as error:
        problem = str(error).partition(": ")[2]
        raise BadPayload(definition.job.id, f"{problem}; what has a schedule is given its own, payload={{…}}") from None
