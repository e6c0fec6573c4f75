"""What can be done to a run, or to every run that fits a filter."""

from enum import StrEnum


class RunAction(StrEnum):
    CANCEL = "cancel"
    HOLD = "hold"
    RELEASE = "release"

    @property
    def done(self) -> str:
        """The reason that is recorded where none is given."""
        return _WORDS[self][0]

    @property
    def meaning(self) -> str:
        return _WORDS[self][1]


_WORDS = {
    RunAction.CANCEL: ("cancelled", "A run that executes is asked to stop; one that has ended keeps its state."),
    RunAction.HOLD: ("held", "A held run does not start until it is released. One that executes goes on."),
    RunAction.RELEASE: ("released", "A released run goes on where it was held."),
}
