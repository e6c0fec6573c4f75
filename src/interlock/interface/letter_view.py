"""Views of dead letters."""

from typing import Annotated

import msgspec

from interlock.fields.field import copy_fields, doc
from interlock.fields.json_form import Time
from interlock.interface.run_view import HistoryEntry, RunDetail
from interlock.model.job_info import Cursor
from interlock.model.letter import DeadLetter, LetterCode


class LetterInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter."""

    id: Annotated[str, doc("Id of its run; a message that cannot be read has an id of its own.")]
    run_id: Annotated[str | None, doc("Run that ended; null for a message that cannot be read.")]
    job_id: Annotated[str, doc("Job of the run; empty without one.")]
    tenant: Annotated[str, doc("Tenant of the run; empty without one.")]
    at: Annotated[Time, doc("Time.")]
    code: Annotated[LetterCode, doc("Reason code.")]
    error: Annotated[str, doc("Error, at most its first 2,000 characters.")]
    replayed_as: Annotated[str | None, doc("Latest run that replays it.")]
    worker_id: Annotated[str | None, doc("Worker that sent a message that cannot be read.")]


class LetterDetail(LetterInfo, frozen=True, kw_only=True):
    """A dead letter with its run."""

    run: Annotated[RunDetail | None, doc("Run, with its payload and error; null without one.")]
    history: Annotated[list[HistoryEntry], doc("Every transition of the run, in order.")]
    raw: Annotated[bytes | None, doc("Beginning of a message that cannot be read, as base64.")]


class LetterPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of dead letters."""

    letters: Annotated[list[LetterInfo], doc("Dead letters, newest first.")]
    counts: Annotated[dict[str, int] | None, doc("Number of letters that match, by code; only on the first page.")]
    next: Cursor


def letter_info(letter: DeadLetter) -> LetterInfo:
    return copy_fields(LetterInfo, letter)
