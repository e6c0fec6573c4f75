"""The options of a run as flags, alike in `interlock submit` and `interlock trigger`."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, NamedTuple

from interlock.cli.shared.options import option, widened
from interlock.cli.shared.server import looks_like_duration, moment
from interlock.error import BadValue, Repeated
from interlock.fields.duration import seconds
from interlock.fields.field_types import FieldPath
from interlock.model.session import SOME_OPTIONS


class RunFlag(NamedTuple):
    option: Any
    read: Callable[[Any], Any] = lambda given: given  # converts typed text to the client's option
    only_submit: bool = False
    kind: Any = str | None


def _deadline(text: str) -> Any:
    """Return seconds for a duration, or a time."""
    if looks_like_duration(text):
        return seconds(text, "--deadline")
    return moment(text, "--deadline", or_duration=True)


def pairs(given: list[str], flag: str = "--label") -> dict[str, str]:
    found: dict[str, str] = {}
    for one in given:
        name, equals, text = one.partition("=")
        if not equals:
            raise BadValue(flag, one, "of the form NAME=TEXT")
        if found.setdefault(name, text) != text:
            raise Repeated(flag, name)
    return found


def _session_options(given: list[str]) -> dict[str, Any]:
    flag = FieldPath("--session-option")
    return {
        name: SOME_OPTIONS.known(name, flag).kind.read(text, FieldPath(f"{flag} {name}"))
        for name, text in pairs(given, flag.name).items()
    }


RUN_FLAGS = {
    "idempotency_key": RunFlag(option("TEXT", "Idempotency key: a repeated submit finds the same run.", "--key")),
    "unique": RunFlag(option("while_live", "Free the key when its run ends; by default it is kept for 30 days.")),
    "delay": RunFlag(option("DURATION", "Run it after this time."), partial(seconds, field="--delay"), True),
    "at": RunFlag(option("TIME", "Run it at this time."), partial(moment, field="--at"), True),
    "deadline": RunFlag(option("DURATION|TIME", "Time by which it must have ended."), _deadline),
    "lane": RunFlag(option("TEXT", "Lane; by default the job's own.")),
    "priority": RunFlag(option("TEXT", "Place in the lane: critical, interactive or batch; by default the job's own.")),
    "session": RunFlag(option("TEXT", "Session of the run.")),
    "session_options": RunFlag(
        option(
            "NAME=VALUE",
            f"Option of the session: {', '.join(SOME_OPTIONS.fields)}; may be repeated.",
            "--session-option",
        ),
        _session_options,
        kind=list[str] | None,
    ),
    "stamp": RunFlag(
        option("TIME", "Time at which its message was sent; default now."), partial(moment, field="--stamp")
    ),
    "tenant": RunFlag(option("TEXT", "Tenant of the run.")),
    "labels": RunFlag(
        option("NAME=TEXT", "Label of the run; may be repeated.", "--label"), pairs, kind=list[str] | None
    ),
}
"""option of a submit → flag"""


def takes_run_options(function: Callable[..., None], trigger: bool = False) -> Callable[..., None]:
    """Give a command the flags of a run; its argument `options` receives the given ones, converted."""
    flags = {name: flag for name, flag in RUN_FLAGS.items() if not (trigger and flag.only_submit)}

    def read(typed: dict[str, Any]) -> dict[str, Any]:
        return {name: flags[name].read(value) for name, value in typed.items() if value not in (None, [])}

    return widened(function, "options", {name: Annotated[flag.kind, flag.option] for name, flag in flags.items()}, read)
