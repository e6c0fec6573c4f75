"""Cursors: opaque texts that say where a list goes on."""

import re

from interlock.error import BadCursor, BadValue

FORM = "{kind}[0-9]{{1,18}}"
LOGS, SERVICE_LOGS, EVENTS = "l", "s", "e"
"""kinds of lists with cursors; further ones are named by their requests"""
START = "start"  # cursor before the first event
JOBS = "j"
JOB_FORM = "j[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"  # form of a cursor in the list of jobs


def cursor_form(kind: str) -> str:
    return JOB_FORM if kind == JOBS else FORM.format(kind=kind)


def cursor_of(kind: str, place: int | str) -> str:
    return f"{kind}{place}"


def read_cursor(kind: str, cursor: str | None) -> int | None:
    """Return the number in a cursor; the letter before it names the kind of list."""
    if cursor is None:
        return None
    if not re.fullmatch(cursor_form(kind), cursor):
        raise BadCursor(cursor)
    return int(cursor[len(kind) :])


def read_event_cursor(field: str, cursor: str) -> int:
    """Return the position that an event's id stands for."""
    try:
        return 0 if cursor == START else read_cursor(EVENTS, cursor) or 0
    except BadCursor:
        raise BadValue(field, cursor, f"the id of an event, or {START!r}") from None


def read_job_cursor(cursor: str | None) -> str | None:
    """Return the job after which the list goes on."""
    if cursor is None:
        return None
    if not re.fullmatch(JOB_FORM, cursor):
        raise BadCursor(cursor)
    return cursor[len(JOBS) :]
