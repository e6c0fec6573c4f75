"""The outcome of an attempt, as its worker reports it."""

from enum import StrEnum


class Outcome(StrEnum):
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    FAILED_FATAL = "failed_fatal"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"


_WORDS = {str(outcome): outcome for outcome in Outcome} | {"completed": Outcome.SUCCEEDED}


def read_outcome(word: str) -> Outcome:
    """Return the outcome of a word; an unknown word is a failure."""
    return _WORDS.get(word, Outcome.FAILED)
