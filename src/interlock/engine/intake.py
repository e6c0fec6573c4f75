"""The check at the door: a submit is refused here, whole, before anything of it exists."""

import hashlib
import math
from collections.abc import Sequence

import msgspec

from interlock.engine.catalog import Catalog, Entry
from interlock.model import payload
from interlock.model.command import Create
from interlock.model.error import BadValue, NotJson, PayloadTooLarge
from interlock.model.job import NAME
from interlock.model.message import NewRun, Submit
from interlock.model.run import occurrence_id
from interlock.ports.store import Store

MOST_RUNS = 10_000
"""runs in one submit"""
LONGEST_KEY = 256


def check(message: Submit, catalog: Catalog) -> None:
    """Raise the first thing wrong with a submit, and mark the secrets in it, so that they stay secrets whatever the
    job becomes before they are used."""
    runs = message.runs
    if not runs or len(runs) > MOST_RUNS:
        raise BadValue("runs", len(runs), f"a number of runs from 1 to {MOST_RUNS:,}")
    secrets = False
    for new in runs:
        entry = catalog.get(new.job_id)
        if len(new.payload) > payload.LIMIT:
            raise PayloadTooLarge(f"payload of {new.job_id!r}", len(new.payload), payload.LIMIT)
        entry.check(new.payload)
        secrets = secrets or entry.mark is not None
        if new.tenant != "default" or not (new.idempotency_key is new.session is new.lane is None):
            _check_names(new)
        if new.at is not None or new.deadline_at is not None or new.occurrence is not None:
            _check_times(new)
    if secrets:
        runs[:] = [_with_marks(new, catalog.get(new.job_id)) for new in runs]


def _with_marks(new: NewRun, entry: Entry) -> NewRun:
    if entry.mark is None:
        return new
    marked = entry.mark(new.payload)
    if len(marked) > payload.LIMIT:
        raise PayloadTooLarge(f"payload of {new.job_id!r}, its secrets marked", len(marked), payload.LIMIT)
    return msgspec.structs.replace(new, payload=marked)


def _check_names(new: NewRun) -> None:
    for field, name in (("tenant", new.tenant), ("lane", new.lane)):
        if name is not None and not NAME.fullmatch(name):
            raise BadValue(field, name, "a name of letters, digits, '_', '-' and '.', up to 64 long")
    for field, value in (("idempotency_key", new.idempotency_key), ("session", new.session)):
        if value is not None and not 1 <= len(value) <= LONGEST_KEY:
            raise BadValue(field, value, f"a text of 1 to {LONGEST_KEY} characters")
    try:
        f"{new.idempotency_key}{new.session}".encode()
    except UnicodeEncodeError as error:
        raise NotJson("idempotency_key", "a string with a lone surrogate") from error


def _check_times(new: NewRun) -> None:
    for field in ("at", "deadline_at", "occurrence"):
        value = getattr(new, field)
        if value is not None and not (math.isfinite(value) and 0 <= value < 1e11):
            raise BadValue(field, value, "a time after 1970")
    if new.at is not None and new.occurrence is not None:
        raise BadValue("at", new.at, "given together with occurrence: an occurrence has its own time")
    due = new.at if new.at is not None else new.occurrence
    if due is not None and new.deadline_at is not None and new.deadline_at <= due:
        raise BadValue("deadline", new.deadline_at, f"later than the time the run is due ({due})")


def to_command(message: Submit, actor: str) -> Create:
    look_up = any(new.idempotency_key is not None or new.occurrence is not None for new in message.runs)
    size = sum(len(new.payload) for new in message.runs)
    return Create(message.request, message.runs, actor, {}, {}, frozenset(), look_up, size)


async def look_up(messages: Sequence[Create], store: Store) -> list[Create]:
    """Add to each submit what the store knows of its keys and occurrences."""
    keys = [
        (new.tenant, new.idempotency_key) for one in messages for new in one.runs if new.idempotency_key is not None
    ]
    ids = [
        occurrence_id(new.job_id, new.occurrence, new.tenant)
        for one in messages
        for new in one.runs
        if new.occurrence is not None
    ]
    known_keys = await store.known_keys(keys) if keys else {}
    known_ids = await store.known_ids(ids) if ids else frozenset()
    found = []
    for one in messages:
        digests = {place: _digest(new) for place, new in enumerate(one.runs) if new.idempotency_key is not None}
        found.append(Create(one.request, one.runs, one.actor, digests, known_keys, known_ids, False, one.size))
    return found


def _digest(new: NewRun) -> bytes:
    content = new.job_id.encode() + b"\0" + payload.canonical(new.payload)
    return hashlib.blake2b(content, digest_size=16).digest()
