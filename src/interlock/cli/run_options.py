"""The options of a run as flags, alike in `interlock submit` and `interlock trigger`."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, NamedTuple

import typer

from interlock.cli.server import looks_like_duration, moment
from interlock.model.duration import seconds
from interlock.model.error import BadUse, BadValue


class RunFlag(NamedTuple):
    option: Any
    read: Callable[[Any], Any] = lambda given: given  # makes the option of the client from what was typed
    only_submit: bool = False
    kind: Any = str | None


def _deadline(text: str) -> Any:
    """Return seconds for a duration, or a time."""
    if looks_like_duration(text):
        return seconds(text, "--deadline")
    return moment(text, "--deadline", or_duration=True)


def _labels(given: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in given:
        name, equals, text = one.partition("=")
        if not equals:
            raise BadValue("--label", one, "of the form NAME=TEXT")
        if found.setdefault(name, text) != text:
            raise BadUse("--label", f"{name!r} given twice; allowed once")
    return found


RUN_FLAGS = {
    "idempotency_key": RunFlag(
        typer.Option("--key", metavar="TEXT", help="Idempotency key: a repeated submit finds the same run.")
    ),
    "delay": RunFlag(
        typer.Option(metavar="DURATION", help="Run it after this time."), partial(seconds, field="--delay"), True
    ),
    "at": RunFlag(typer.Option(metavar="TIME", help="Run it at this time."), partial(moment, field="--at"), True),
    "deadline": RunFlag(typer.Option(metavar="DURATION|TIME", help="Time by which it must have ended."), _deadline),
    "lane": RunFlag(typer.Option(metavar="TEXT", help="Lane; by default the job's own.")),
    "session": RunFlag(typer.Option(metavar="TEXT", help="Session of the run.")),
    "tenant": RunFlag(typer.Option(metavar="TEXT", help="Tenant of the run.")),
    "labels": RunFlag(
        typer.Option("--label", metavar="NAME=TEXT", help="Label of the run; may be repeated."),
        _labels,
        kind=list[str] | None,
    ),
}
"""option of a submit → its flag"""


def takes_run_options(function: Callable[..., None], trigger: bool = False) -> Callable[..., None]:
    """Give a command the flags of a run; it gets those that were given, read, as its argument `options`."""
    flags = {name: flag for name, flag in RUN_FLAGS.items() if not (trigger and flag.only_submit)}

    def command(**given: Any) -> None:
        typed = {name: given.pop(name) for name in flags}
        options = {name: flags[name].read(value) for name, value in typed.items() if value not in (None, [])}
        function(options=options, **given)

    parameters: list[inspect.Parameter] = []
    for name, one in inspect.signature(function, eval_str=True).parameters.items():
        if name != "options":
            parameters.append(one.replace(kind=one.KEYWORD_ONLY))
            continue
        for field, flag in flags.items():
            made: Any = Annotated[flag.kind, flag.option]
            parameters.append(inspect.Parameter(field, one.KEYWORD_ONLY, annotation=made, default=None))
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # read by `takes`
    command.__doc__ = function.__doc__
    return command
