"""What can be done to a run, or to every run that fits a filter."""

from enum import StrEnum


class RunAction(StrEnum):
    CANCEL = "cancel"

    @property
    def done(self) -> str:
        """The reason that is recorded where none is given."""
        return _WORDS[self][0]

    @property
    def meaning(self) -> str:
        return _WORDS[self][1]


_WORDS = {
    RunAction.CANCEL: ("cancelled", "A run that executes is asked to stop; one that has ended keeps its state."),
}
