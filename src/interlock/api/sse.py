"""Events in the form of the stream."""

from typing import Any

import msgspec

from interlock.api.cursors import EVENTS, cursor_of
from interlock.fields.json_form import encode
from interlock.interface import run_view as v
from interlock.model.job_info import JobEvent
from interlock.model.lane import LaneEvent
from interlock.model.session_info import SessionEvent
from interlock.ports.store import ServiceEntry, StoredEvent
from interlock.wire.message import CHUNKS


def framed(data: bytes) -> bytes:
    """Return a chunk of an answer of unknown length, as HTTP frames it."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def id_line(position: int) -> bytes:
    return b"id: %b\n" % cursor_of(EVENTS, position).encode()


def frame(event: Any, position: int | None = None) -> bytes:
    """Return an event in the form of the stream."""
    head = b"" if position is None else id_line(position)
    return b"%sevent: %s\ndata: %s\n\n" % (head, v.EVENT_NAMES[type(event)].encode(), encode(event))


def hello(position: int) -> bytes:
    return b"retry: 2000\n" + frame(v.HelloEvent(cursor=cursor_of(EVENTS, position)), position)


def gap(after: int, until: int) -> bytes:
    """Return the chunk that announces a left-out range of positions."""
    return framed(frame(v.GapEvent(after=cursor_of(EVENTS, after), until=cursor_of(EVENTS, until))))


class Whose(msgspec.Struct, frozen=True, gc=False):
    """Type and subject of a stored event; None where it has no such subject."""

    kind: str
    run_id: str | None
    job_id: str | None
    tenant: str | None
    service: str | None = None
    jobs: tuple[str, ...] = ()  # those that a change of jobs names
    more_jobs: bool = False  # whether it changed others too


def whose(stored: StoredEvent | ServiceEntry) -> Whose:
    if isinstance(stored, ServiceEntry):
        if (violation := stored.violation) is not None:
            return Whose("violation", violation.run_id, violation.job_id, violation.tenant)
        if stored.service == JobEvent.log:
            change = msgspec.json.decode(stored.text, type=JobEvent)
            return Whose("job", None, None, None, stored.service, tuple(change.jobs), change.count > len(change.jobs))
        of_tenant = stored.service.startswith(SessionEvent.LOGS)
        tenant = stored.service.removeprefix(SessionEvent.LOGS) if of_tenant else None
        return Whose(v.EVENT_NAMES[_kind(stored)], None, None, tenant, stored.service)
    kind = "run" if stored.line is None else "chunk" if stored.line.level == CHUNKS else "log"
    return Whose(kind, stored.run_id, stored.job_id, stored.tenant)


def _kind(stored: ServiceEntry) -> type:
    if stored.service in (LaneEvent.log, JobEvent.log):
        return LaneEvent if stored.service == LaneEvent.log else JobEvent
    if stored.service.startswith(SessionEvent.LOGS):
        return SessionEvent
    return v.ServiceLogEvent if stored.change is None else v.ServiceEvent


def data_of(stored: StoredEvent | ServiceEntry) -> bytes:
    """Return a stored event as bytes to send."""
    return frame(_event(stored), stored.position)


def _event(stored: StoredEvent | ServiceEntry) -> Any:
    of: dict[str, Any]
    if isinstance(stored, ServiceEntry):
        if (violation := stored.violation) is not None:
            return violation
        if (kind := _kind(stored)) in (LaneEvent, JobEvent, SessionEvent):
            return msgspec.json.decode(stored.text, type=kind)
        of = {"service": stored.service, "at": stored.at, "text": stored.text}
        if (change := stored.change) is None:
            return v.ServiceLogEvent(**of, stream=stored.stream)
        return v.ServiceEvent(**of, path=change.path, before=change.before, after=change.after)
    of = {"run_id": stored.run_id, "job_id": stored.job_id, "tenant": stored.tenant}
    if (line := stored.line) is not None and line.level == CHUNKS:
        return v.ChunkEvent(**of, at=line.at, attempt=line.attempt, chunks=msgspec.json.decode(line.text))
    if line is not None:
        return v.LogEvent(**of, at=line.at, attempt=line.attempt, level=line.level, text=line.text, logger=line.logger)
    entries = v.entries_of(stored.run_id, stored.transitions)
    return v.RunEvent(**of, state=entries[-1].after, transitions=entries)
