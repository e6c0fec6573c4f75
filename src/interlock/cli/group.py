"""The frame of every command: lazy loading, `--version`, errors on one line, exit codes."""

import io
import os
import re
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from interlock.cli.shared.output import mute
from interlock.error import ExitCode, InterlockError
from interlock.error_lines import say_error, say_failure
from interlock.fields.field_types import did_you_mean

GROUPS = {
    "policy": "Try a policy before it decides: run its cases, explain and compare verdicts. Or serve it.",
    "workflow": "Try a workflow before it runs; look at its record; resume or abandon a halted run.",
    "dlq": "List dead letters, the runs that were given up; replay or drop them.",
}
"""group of commands → its help"""
ACTIONS = {
    **dict.fromkeys(("cancel", "hold", "release", "retry"), "run_actions"),
    **dict.fromkeys(("pause", "resume"), "job_actions"),
    **dict.fromkeys(("stop", "stopall", "reset"), "session"),
    **dict.fromkeys(("workflow_resume", "workflow_abandon"), "workflow_actions"),
}
"""command → the file that makes the commands of several actions"""


SYNONYMS = {"--port": "--http", "--host": "--http", "--listen": "--http", "--bind": "--http", "--db": "--database"}
"""option of other programs → ours"""


def _untyped(parameters: list[Any]) -> list[Any]:
    """Hide the type of options without a value in the help."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters


class CliCommand(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _untyped(super().get_params(ctx))


class Commands(TyperGroup):
    """Loads a command's file when the command is used. A name of two words is a command in a group."""

    names: Mapping[str, str] = {}
    prefix = ""  # of the names of a group, in the names of files
    folder = ""  # of its files

    def get_params(self, ctx: Any) -> list[Any]:
        return _untyped(super().get_params(ctx))

    def list_commands(self, ctx: Any) -> list[str]:
        return list(dict.fromkeys(name.partition(" ")[0] for name in self.names))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.list_commands(ctx):
            return None
        if cmd_name not in self.commands:
            alone = typer.Typer(add_completion=False)
            if cmd_name in self.names:
                panel = self.names[cmd_name]
                function = _function(self.folder or panel.lower(), self.prefix + cmd_name)
                alone.command(cmd_name, cls=CliCommand, rich_help_panel=panel)(function)
            else:
                alone = self._group(cmd_name)
            self.commands[cmd_name] = typer.main.get_command(alone)
        return self.commands[cmd_name]

    def _group(self, name: str) -> typer.Typer:
        below = {one.removeprefix(f"{name} "): one for one in self.names if one.startswith(f"{name} ")}
        panel = next(self.names[one] for one in below.values())
        own = {"names": dict.fromkeys(below, "Commands"), "prefix": f"{name}_", "folder": panel.lower()}
        group = typer.Typer(name=name, cls=type("Commands", (Commands,), own), add_completion=False)
        group.callback(help=GROUPS[name], rich_help_panel=panel)(lambda: None)
        return group

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        known = self.list_commands(ctx)
        if args and args[0] not in known:
            ctx.fail(f"{args[0]!r} is not a command{did_you_mean(args[0], known)}")
        return super().resolve_command(ctx, args)


def _function(folder: str, name: str) -> Any:
    if name in ACTIONS:
        return import_module(f"interlock.cli.act.{ACTIONS[name]}").command_of(name.removeprefix("workflow_"))
    return import_module(f"interlock.cli.{folder}.{name.replace('-', '_')}").command


def _version(asked: bool) -> None:
    if asked:
        from interlock import __version__

        print(f"interlock {__version__}")  # noqa: T201 - this is the command line's voice
        raise typer.Exit


def build(names: Mapping[str, str]) -> Any:
    """Build the command with all its subcommands."""
    group = type("Commands", (Commands,), {"names": names})
    app = typer.Typer(cls=group, pretty_exceptions_enable=False)

    @app.callback()
    def interlock(
        version: Annotated[
            bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
        ] = False,
    ) -> None:
        """A job scheduler and orchestrator for work that must not go wrong."""

    return typer.main.get_command(app)


def run(names: Mapping[str, str], arguments: list[str]) -> int:
    """Run one command line; return its exit code."""
    if sys.stdout is None:  # closed by the caller
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - it is open as long as the process
    # A character that the terminal cannot show is no error.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    in_json = "--json" in arguments
    try:
        given = with_optional_values(arguments) or ["--help"]
        code = build(names).main(given, prog_name="interlock", standalone_mode=False)
        sys.stdout.flush()
    except InterlockError as error:
        return say_failure(error, in_json)
    except TyperException as error:
        return say_error(_usage(error), "usage", in_json=in_json)
    except typer.Abort:
        return say_error("stopped; nothing was changed", "aborted", in_json=in_json)
    except (BrokenPipeError, SystemExit) as error:
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            raise
        # The reader of our output has gone (`| head`).
        mute(sys.stdout.fileno())
        return ExitCode.BROKEN_PIPE
    except OSError as error:
        mute(sys.stdout.fileno())
        return say_error(f"the system refused: {error.strerror or error}", "system", in_json=in_json)
    return code if isinstance(code, int) else ExitCode.FINE


def with_optional_values(arguments: list[str]) -> list[str]:
    """Rewrite `--wait` and `--wait 30s` for the parser, which knows no optional values. Text that looks like a duration
    counts as one, even if mistyped; an id is longer."""
    found: list[str] = []
    for place, one in enumerate(arguments):
        if one == "--":
            return found + arguments[place:]
        if found[-1:] == ["--wait="] and re.fullmatch(r"[0-9][0-9.]{0,9}[a-z]{0,7}", one):
            found[-1] += one
        else:
            found.append("--wait=" if one == "--wait" else one)
    return found


def _usage(error: TyperException) -> str:
    """Return the message of the option parser, in our words for an unknown option."""
    option, context = getattr(error, "option_name", None), getattr(error, "ctx", None)
    if type(error).__name__ == "NoSuchOption" and option is not None:
        known = [name for param in context.command.params for name in param.opts] if context is not None else []
        meant = SYNONYMS.get(option)
        hint = f"; did you mean {meant!r}?" if meant in known else did_you_mean(option, known)
        return f"{option!r} is not an option{hint}"
    text = " ".join(error.format_message().split()).rstrip(".")
    return text[:1].lower() + text[1:]
