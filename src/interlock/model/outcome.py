"""How an attempt ended, in the worker's words."""

from enum import StrEnum


class Outcome(StrEnum):
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    FAILED_FATAL = "failed_fatal"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"


_WORDS = {str(one): one for one in Outcome} | {"completed": Outcome.SUCCEEDED}


def read_outcome(word: str) -> Outcome:
    """The outcome a word stands for; a word nobody knows is a failure."""
    return _WORDS.get(word, Outcome.FAILED)
