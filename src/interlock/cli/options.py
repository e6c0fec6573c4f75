"""Options made from the table of settings, and those that several commands share."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
import typer

from interlock.config.resolve import Resolved, resolve
from interlock.config.settings import CLIENT_SETTINGS, DEFAULTS, SETTINGS, flag_of
from interlock.model.field_types import Truth

LISTS = ("files", "tokens", "origins", "hosts", "secret_names")
SERVER_FLAGS = tuple(name for name in SETTINGS if name not in LISTS)  # lists are for the file, or are arguments
FINDING = ("database", "socket", "url", "token")  # where the server is; of these a command has no other use

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ConfigOption = Annotated[
    str | None, typer.Option("--config", metavar="FILE", help="The settings file, instead of ./interlock.yaml.")
]


class Flags(msgspec.Struct, frozen=True):
    """Settings given as flags, as typed."""

    values: dict[str, Any]
    config: str | None

    def given(self, **more: Any) -> "Flags":
        """Add settings given as arguments; None was not given."""
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

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        def command(**given: Any) -> None:
            values = {name: given.pop(name) for name in names}
            function(flags=Flags(values, given.pop("config")), **given)

        own = inspect.signature(function, eval_str=True).parameters
        last = FINDING if names == FINDING else tuple(CLIENT_SETTINGS)
        parameters = [_parameter(name) for name in names if name not in last]
        parameters += [one.replace(kind=one.KEYWORD_ONLY) for name, one in own.items() if name != "flags"]
        parameters += [_parameter(name) for name in names if name in last]
        parameters.append(
            inspect.Parameter("config", inspect.Parameter.KEYWORD_ONLY, annotation=ConfigOption, default=None)
        )
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # read by Typer
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        command.__doc__ = function.__doc__
        return command

    return decorate


def _parameter(name: str) -> inspect.Parameter:
    setting, default = SETTINGS.get(name) or CLIENT_SETTINGS[name], DEFAULTS[name]
    names = (flag_of(name), "-A") if name == "app" else (flag_of(name),)
    if isinstance(setting.kind, Truth):
        kind: Any = bool | None
        option = typer.Option(*names, help=setting.help)
    else:
        kind = list[str] | None if name == "lanes" else str | None
        meaning = setting.help if default is None else f"{setting.help} Default: {setting.kind.show(default)}."
        option = typer.Option(*names, metavar=setting.kind.metavar, help=meaning)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[kind, option], default=None)
