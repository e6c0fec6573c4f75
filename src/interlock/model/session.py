"""Sessions: runs that share a key are executed in order."""

from collections.abc import Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Annotated, Any, Literal, TypedDict

from interlock.error import BadValue
from interlock.fields.duration import Duration
from interlock.fields.field import Checked, Some, doc, object_schema
from interlock.fields.field_types import FieldPath, Kind, Rate, Schema, Span, Whole

LONGEST_SESSION = 512  # bytes of the key of a session in UTF-8


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
    drop: Annotated[
        Drop, doc("Run to drop at `cap`: `old` cancels the oldest waiting run, `new` refuses the new one.")
    ] = Drop.OLD
    rate: Annotated[float | None, doc("Maximum start rate, such as `10/s`."), Rate()] = None
    burst: Annotated[int, doc("Starts allowed at once after an idle period."), Whole(1)] = 1


class SessionAction(StrEnum):
    STOP = "stop"
    STOP_ALL = "stopall"
    RESET = "reset"
    PAUSE = "pause"
    RESUME = "resume"


DEFAULT = SessionOptions()


class SessionFields(TypedDict, total=False):
    """Some options of a session, as you give them with a submit or a job."""

    mode: Literal["queue", "followup", "interrupt"]
    max_concurrent: int
    debounce: Duration
    cap: int
    drop: Literal["old", "new"]
    rate: str | float
    burst: int


SOME_OPTIONS = Some(SessionOptions)


def check_key(field: str, key: str) -> str:
    # A lone surrogate is refused where the text as a whole is checked.
    if not 1 <= len(key.encode(errors="surrogatepass")) <= LONGEST_SESSION:
        raise BadValue(field, key, f"a text of 1 to {LONGEST_SESSION} bytes")
    return key


class SessionPatterns(Kind):
    """Options for the sessions whose key matches a pattern."""

    def check(self, value: Any, place: FieldPath) -> dict[str, dict[str, Any]]:
        if not isinstance(value, Mapping):
            raise BadValue(str(place), value, "a mapping of patterns to options of sessions")
        return {check_key(str(place), name): SOME_OPTIONS.check(some, place.at(name)) for name, some in value.items()}

    def schema(self) -> Schema:
        names = {"minLength": 1, "maxLength": LONGEST_SESSION}
        return {
            "type": "object",
            "propertyNames": names,
            "additionalProperties": object_schema(SOME_OPTIONS.fields.values()),
        }

    def show(self, value: dict[str, dict[str, Any]]) -> str:
        return "; ".join(f"{name}: {SOME_OPTIONS.show(some)}" for name, some in value.items())


def effective(
    patterns: Mapping[str, Mapping[str, Any]],
    of_job: Mapping[str, Any] | None,
    override: Mapping[str, Any] | None,
    given: Mapping[str, Any] | None,
    name: str,
) -> SessionOptions:
    """Return the options for a run: those of its submit, else the session's last ones, else the job's, else those of
    the longest pattern that fits the name, else the default ones."""
    if not (patterns or of_job or override or given):
        return DEFAULT
    fitting = ""
    for pattern in patterns:
        if len(pattern) > len(fitting) and fnmatchcase(name, pattern):
            fitting = pattern
    found: dict[str, Any] = {}
    for layer in (patterns.get(fitting), of_job, override, given):
        if layer:
            found.update(layer)
    return _made(tuple(found.items()))


@lru_cache(1024)
def _made(values: tuple[tuple[str, Any], ...]) -> SessionOptions:
    return SessionOptions(**dict(values))
