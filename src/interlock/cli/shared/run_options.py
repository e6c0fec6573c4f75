"""The options of a run as flags, alike in `interlock submit` and `interlock trigger`."""

from collections.abc import Callable, Collection
from typing import Annotated, Any

from interlock.cli.shared.options import option, widened
from interlock.cli.shared.server import looks_like_duration, moment
from interlock.error import BadValue, Repeated
from interlock.fields.duration import seconds
from interlock.fields.field_types import FieldPath
from interlock.model.session import SOME_OPTIONS
from interlock.wire.new_run import OPTIONS


def _deadline(text: str, flag: str) -> Any:
    """Return seconds for a duration, or a time."""
    return seconds(text, flag) if looks_like_duration(text) else moment(text, flag, or_duration=True)


def pairs(given: list[str], flag: str = "--label") -> dict[str, str]:
    found: dict[str, str] = {}
    for one in given:
        name, equals, text = one.partition("=")
        if not equals:
            raise BadValue(flag, one, "of the form NAME=TEXT")
        if found.setdefault(name, text) != text:
            raise Repeated(flag, name)
    return found


def _session_options(given: list[str], flag: str) -> dict[str, Any]:
    return {
        name: SOME_OPTIONS.known(name, FieldPath(flag)).kind.read(text, FieldPath(f"{flag} {name}"))
        for name, text in pairs(given, flag).items()
    }


READERS: dict[str, Callable[[Any, str], Any]] = {
    "TIME": moment,
    "DURATION": seconds,
    "DURATION|TIME": _deadline,
    "NAME=TEXT": pairs,
    "NAME=VALUE": _session_options,
}
"""metavar → how the typed text is read; any other text is taken as it is"""
NAMES = {"idempotency_key": "--key", "labels": "--label", "session_options": "--session-option"}


def takes_run_options(function: Callable[..., None], names: Collection[str] = OPTIONS) -> Callable[..., None]:
    """Give a command the flags of these options; its argument `options` receives the given ones, as a client takes
    them."""

    def annotation(name: str) -> Any:
        form, meaning = OPTIONS[name]
        meaning = meaning.replace("`", "")
        if "=" not in form.metavar:
            return Annotated[str | None, option(form.metavar, meaning, _flag(name))]
        return Annotated[list[str] | None, option(form.metavar, f"{meaning[:-1]}; may be repeated.", _flag(name))]

    def read(typed: dict[str, Any]) -> dict[str, Any]:
        given = {name: text for name, text in typed.items() if text not in (None, [])}
        readers = {name: READERS.get(OPTIONS[name].form.metavar) for name in given}
        return {name: read(given[name], _flag(name)) if read else given[name] for name, read in readers.items()}

    return widened(function, "options", {name: annotation(name) for name in names}, read)


def _flag(name: str) -> str:
    return NAMES.get(name, f"--{name}")
