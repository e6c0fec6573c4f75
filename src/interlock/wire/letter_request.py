"""Requests about dead letters."""

from typing import ClassVar

from interlock.model.access import Permission
from interlock.model.letter import Dropped, LetterFilter
from interlock.wire.request import ChangeRequest
from interlock.wire.run_request import RetryRun


class Replay(RetryRun, frozen=True):
    """Retry a run, with other arguments if any are given: they replace those of the same name."""

    arguments: bytes = b""  # a JSON object; the core gets the whole payload here, checked

    permission: ClassVar = Permission.SUBMIT


class DropLetters(ChangeRequest[Dropped], frozen=True):
    """Drop the letter with this id, or a page of those that match."""

    letter_id: str | None
    wanted: LetterFilter = LetterFilter()
