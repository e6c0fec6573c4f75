"""Actions on a run, or on every run that matches a filter."""

from enum import StrEnum


class RunAction(StrEnum):
    CANCEL = "cancel"
    HOLD = "hold"
    RELEASE = "release"

    @property
    def done(self) -> str:
        """The reason recorded if none is given."""
        return _WORDS[self][0]

    @property
    def meaning(self) -> str:
        return _WORDS[self][1]


_WORDS = {
    RunAction.CANCEL: ("cancelled", "A running run is asked to stop; an ended run keeps its state."),
    RunAction.HOLD: ("held", "A held run does not start until it is released. A running run continues."),
    RunAction.RELEASE: ("released", "A released run continues where it was held."),
}
