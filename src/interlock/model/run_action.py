"""Actions on a run, or on every run that matches a filter."""

from enum import StrEnum


class RunAction(StrEnum):
    CANCEL = "cancel"
    HOLD = "hold"
    RELEASE = "release"
    RETRY = "retry"

    @property
    def done(self) -> str:
        """The reason recorded if none is given."""
        return _WORDS[self][0]

    @property
    def meaning(self) -> str:
        return _WORDS[self][1]

    @property
    def reach(self) -> str:
        """Which runs a bulk request acts on, after "runs that"."""
        return "ended without success, unless retried before" if self is RunAction.RETRY else "have not ended"


_WORDS = {
    RunAction.CANCEL: ("cancelled", "A running run is asked to stop; an ended run keeps its state."),
    RunAction.HOLD: ("held", "A held run does not start until it is released. A running run continues."),
    RunAction.RELEASE: ("released", "A released run continues where it was held."),
    RunAction.RETRY: (
        "retried",
        "An ended run runs again, as a new run with the same job, payload, tenant, lane, priority, session with its "
        "options, labels and time to its deadline. The facet `retry_of` of the new run names the old one; `retried_as` "
        "of the old one names it.",
    ),
}
