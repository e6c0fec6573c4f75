"""Views of dead letters, and the bodies of requests about them."""

from typing import Annotated, Any

import msgspec

from interlock.fields.field import copy_fields, doc
from interlock.fields.json_form import Time
from interlock.interface.new_run_body import Body, Moment
from interlock.interface.run_view import HistoryEntry, RunDetail
from interlock.model.job_info import Cursor
from interlock.model.letter import DeadLetter, LetterCode
from interlock.wire.parameter import FilterText, Reason


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


class LetterChoice(Body, frozen=True, kw_only=True):
    code: Annotated[LetterCode | None, doc("Only letters with this reason code.")] = None
    job: Annotated[FilterText | None, doc("Only letters of this job.")] = None
    tenant: Annotated[FilterText | None, doc("Only letters of this tenant.")] = None
    since: Annotated[Moment | None, doc("Only letters since then, in RFC 3339 or seconds since 1970.")] = None
    until: Annotated[Moment | None, doc("Only letters before this time, in the same form.")] = None
    replayed: Annotated[bool | None, doc("`true`: only letters that were replayed; `false`: only others.")] = None


class LettersBody(LetterChoice, frozen=True, kw_only=True):
    """A choice of dead letters: those that match every field given."""

    everything: Annotated[bool, doc("`true`: every letter; needed without other fields.")] = msgspec.field(
        default=False, name="all"
    )
    reason: Annotated[Reason, doc("Reason, kept with new runs.")] = ""


class ReplayBody(Body, frozen=True, kw_only=True):
    reason: Annotated[Reason, doc("Reason, kept with the new run.")] = ""
    payload: Annotated[
        dict[str, Any] | None, doc("Arguments to change, checked like those of a submit; others keep their values.")
    ] = None


def letter_info(letter: DeadLetter) -> LetterInfo:
    return copy_fields(LetterInfo, letter)
