"""Sessions: runs that share a key are executed in order."""

from collections.abc import Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated, Any

from interlock.model.doc import doc
from interlock.model.field import Checked
from interlock.model.field_types import Rate, Span, Whole


class Mode(StrEnum):
    QUEUE = "queue"
    FOLLOWUP = "followup"  # as queue; chat programs know it by this name
    INTERRUPT = "interrupt"


class Drop(StrEnum):
    OLD = "old"
    NEW = "new"


class SessionOptions(Checked, frozen=True, kw_only=True, omit_defaults=True):
    """How the runs of a session wait for each other."""

    mode: Annotated[
        Mode, doc("`queue` or `followup` in order of arrival; `interrupt` cancels all others for the new run.")
    ] = Mode.QUEUE
    max_concurrent: Annotated[int, doc("Runs of the session that may execute at once."), Whole(1)] = 1
    debounce: Annotated[
        float,
        doc("Time without a further arrival before a run starts; those that arrive meanwhile become one."),
        Span(),
    ] = 0.8
    cap: Annotated[int, doc("Most runs that wait."), Whole(1)] = 10
    drop: Annotated[Drop, doc("What gives way when `cap` is reached: the `old`est run, or the `new` one.")] = Drop.OLD
    rate: Annotated[float | None, doc("Most starts of the session in a unit of time, such as `10/s`."), Rate()] = None
    burst: Annotated[int, doc("Starts at once that the rate allows after a pause."), Whole(1)] = 1


class SessionAction(StrEnum):
    STOP = "stop"
    STOP_ALL = "stopall"
    RESET = "reset"
    PAUSE = "pause"
    RESUME = "resume"


DEFAULT = SessionOptions()


def effective(
    patterns: Mapping[str, Mapping[str, Any]],
    of_job: Mapping[str, Any] | None,
    override: Mapping[str, Any] | None,
    given: Mapping[str, Any] | None,
    name: str,
) -> SessionOptions:
    """Return the options for a run: those of its submit, else the session's last ones, else the job's, else those of
    the longest pattern that fits the name, else the default ones."""
    fitting = max((one for one in patterns if fnmatchcase(name, one)), key=len, default=None) if patterns else None
    layers = ({} if fitting is None else patterns[fitting], of_job, override, given)
    found = {key: value for layer in layers if layer for key, value in layer.items()}
    return SessionOptions(**found) if found else DEFAULT
