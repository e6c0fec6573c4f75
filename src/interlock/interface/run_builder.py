"""A run to submit, made from the values of a program or of a body over HTTP."""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Unpack

from interlock.error import BadUse, BadValue, PayloadTooLarge
from interlock.fields import payload
from interlock.fields.duration import seconds
from interlock.wire.new_run import OPTIONS, NewRun, RunOptions, check_text, check_together

MOST_BYTES = 16 * 1024 * 1024  # size of all payloads in one submit


def new_run(
    job_id: str,
    arguments: Any = None,
    *,
    now: float | None = None,
    **options: Unpack[RunOptions],
) -> NewRun:
    """Return a run to submit. `deadline` is an instant, or a duration from now or from when the run is due. Without
    arguments, the run gets the job's own. `key` is short for `idempotency_key`."""
    check_options(options, RunOptions)
    data = b"" if arguments is None else payload.encode(arguments, "payload")
    check_text(job_id, "job")
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    key, deadline = given.pop("key", None), given.pop("deadline", None)
    if key is not None and given.setdefault("idempotency_key", key) is not key:
        raise BadUse("key", "cannot be combined with idempotency_key, its long name")
    for name, value in given.items():
        given[name] = OPTIONS[name].form.check(value, name)
    if deadline is not None:
        begins = given.get("at") or given.get("occurrence") or (now or time.time()) + given.get("delay", 0.0)
        limit = deadline if isinstance(deadline, datetime) else begins + seconds(deadline, "deadline")
        given["deadline"] = OPTIONS["deadline"].form.check(limit, "deadline")
        if "delay" in given and given["deadline"] <= begins:
            raise BadValue("deadline", deadline, f"later than the end of the delay ({given['delay']:g}s)")
    new = NewRun(job_id, data, **given)
    check_together(new)
    return new


def check_options(given: Mapping[str, object], kind: Any) -> None:
    """Refuse keyword arguments that are not fields of a TypedDict, as Python does for those of a function."""
    if unknown := given.keys() - kind.__annotations__.keys():
        raise TypeError(f"got an unexpected keyword argument {min(unknown)!r}")


def check_size(runs: Sequence[NewRun]) -> None:
    size = sum(len(new.payload) for new in runs)
    if size > MOST_BYTES:
        raise PayloadTooLarge("submit", size, MOST_BYTES)
