"""Options made from the table of settings, and those that several commands share."""

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any

import msgspec
import typer

from interlock.config.resolve import Resolved, resolve
from interlock.config.settings import CLIENT_SETTINGS, DEFAULTS, SETTINGS, flag_of
from interlock.fields.field_types import Truth

LISTS = ("files", "tokens", "origins", "hosts", "secret_names", "sessions")  # in the file, or arguments
SECRETS = ("worker_token", "gateway_token")  # other users can see what is on a command line
SERVER_FLAGS = tuple(name for name in SETTINGS if name not in LISTS + SECRETS)
REPEATED = ("lanes", "worker_labels", "capabilities", "nodes", "roles")
FINDING = ("database", "socket", "url", "token")  # settings that locate the server


def option(metavar: str, meaning: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, metavar=metavar, help=meaning, **more)


def argument(metavar: str, meaning: str, completion: Callable[..., Any] | None = None) -> Any:
    return typer.Argument(metavar=metavar, help=meaning, autocompletion=completion)


def switch(meaning: str, *names: str) -> Any:
    """Return an option without a value."""
    return typer.Option(*names, help=meaning)


JsonOption = Annotated[bool, switch("Print JSON.", "--json")]
CONFIG = Annotated[str | None, option("FILE", "The settings file, instead of ./interlock.yaml.", "--config")]


class Flags(msgspec.Struct, frozen=True):
    """Settings typed as flags."""

    values: dict[str, Any]
    config: str | None

    def given(self, **more: Any) -> "Flags":
        """Add settings given as arguments; None means not given."""
        return Flags(self.values | more, self.config)

    def resolve(self) -> Resolved:
        return resolve(self.values, self.config)

    def url(self, resolved: Resolved) -> str:
        """Return the address of the server; a flag takes precedence over INTERLOCK_URL."""
        by_place = self.values["database"] is not None or self.values["socket"] is not None
        if resolved.client.url is not None and (self.values["url"] is not None or not by_place):
            return resolved.client.url
        return f"unix:{resolved.settings.http_socket_path()}"


def takes(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command these settings as options; it receives them as its argument `flags`."""
    added = {name: _annotation(name) for name in names} | {"config": CONFIG}
    last = {"config", *(FINDING if names == FINDING else CLIENT_SETTINGS)}

    def read(given: dict[str, Any]) -> Flags:
        return Flags(given, given.pop("config"))

    return lambda function: widened(function, "flags", added, read, last)


def widened(
    function: Callable[..., None],
    name: str,
    added: Mapping[str, Any],
    read: Callable[[dict[str, Any]], Any],
    last: Collection[str] = (),
) -> Callable[..., None]:
    """Replace the argument `name` of a command by typed options. The command receives the result of `read` on their
    values. Options in `last` come at the end of the help."""

    def command(**given: Any) -> None:
        function(**{name: read({one: given.pop(one) for one in added})}, **given)

    parameters: list[inspect.Parameter] = []
    for own in inspect.signature(function, eval_str=True).parameters.values():
        if own.name == name:
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters += [inspect.Parameter(one, kind, annotation=its, default=None) for one, its in added.items()]
        else:
            parameters.append(own.replace(kind=own.KEYWORD_ONLY))
    parameters.sort(key=lambda one: one.name in last)
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # read by Typer
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__doc__ = function.__doc__
    return command


def _annotation(name: str) -> Any:
    setting, default = SETTINGS.get(name) or CLIENT_SETTINGS[name], DEFAULTS[name]
    names = tuple(filter(None, (flag_of(name), setting.also)))
    if isinstance(setting.kind, Truth):
        return Annotated[bool | None, switch(setting.help, *names)]
    shown = "" if default is None else setting.kind.show(default)
    meaning = f"{setting.help} Default: {shown}." if shown else setting.help
    kind: Any = list[str] | None if name in REPEATED else str | None
    return Annotated[kind, option(setting.kind.metavar, meaning, *names)]
