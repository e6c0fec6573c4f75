"""Writes docs/reference/command-line.md from the commands themselves: `python -m tools.cli_reference`."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from interlock.cli.group import build
from interlock.cli.main import COMMANDS
from interlock.config.settings import CLIENT_SETTINGS, DEFAULTS, SETTINGS, flag_of, variable_of
from interlock.core.state import DEFAULT_LANES
from interlock.error import ERRORS, ExitCode

DOCUMENT = Path("docs") / "reference" / "command-line.md"

HEAD = """# Command line

Written by `python -m tools.cli_reference`; do not edit it by hand.

Commands find the server by `--url` or `INTERLOCK_URL`; without one they use the Unix socket beside the database that
`--db`, `--socket` or the settings of the current folder name. A token is best given as `INTERLOCK_TOKEN`.

In a terminal the output is for reading. Piped it is plain: tabs between values, no colours, nothing cut, times in UTC.
`--json` prints JSON on one line, and errors as `{"error": {"code", "message"}}` on standard error. `NO_COLOR` is
honoured. `interlock --install-completion` installs completion for the current shell.
"""

SETTINGS_HEAD = """## Settings

A flag counts more than the environment, that more than `interlock.yaml` in the current folder (or the file that
`--config` or `INTERLOCK_CONFIG` names), that more than the default. `interlock config` shows which counts and why. The
file's schema is [interlock.schema.json](../interlock.schema.json).

| in the file | variable | default | |
|---|---|---|---|"""


def lines() -> Iterator[str]:
    yield HEAD
    for name in COMMANDS:
        found = build(COMMANDS)
        for word in name.split():
            found = found.get_command(None, word)
        yield from _command(name, found)
    yield from _exits()
    yield from _settings()


def _command(name: str, command: Any) -> Iterator[str]:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option"]
    names = [(one.metavar if one.required else f"[{one.metavar}]") + "..." * (one.nargs < 0) for one in arguments]
    yield f"## interlock {name}\n"
    yield f"{_text(command.help)}\n"
    yield f"```text\n{' '.join(['interlock', name, *names, '[OPTIONS]'])}\n```\n"
    yield "| | |\n|---|---|"
    for one in arguments:
        yield f"| `{one.metavar}` | {_text(one.help)} |"
    for one in options:
        yield f"| {_names(one)} | {_text(one.help)}{_default(one)} |"
    yield ""


def _names(option: Any) -> str:
    metavar = option.metavar or ""
    if not option.is_flag and not metavar:
        metavar = "NUMBER" if isinstance(option.default, int) else "TEXT"
    joined = metavar if metavar.startswith("[") else f" {metavar}" if metavar else ""
    names = [f"`{one}{joined}`" for one in sorted(option.opts, key=len, reverse=True)]
    return ", ".join([*names, *(f"`{one}`" for one in option.secondary_opts)]).replace("|", "\\|")


def _default(option: Any) -> str:
    if option.is_flag or option.default in (None, []) or callable(option.default):
        return ""
    return f" Default: {option.default}."


def _text(text: str | None) -> str:
    return re.sub(r"\s+", " ", text or "").replace("|", "\\|").strip()


def _exits() -> Iterator[str]:
    yield "## Exit codes\n"
    yield "| code | meaning | codes of errors |\n|---|---|---|"
    for exit_code in ExitCode:
        codes = ", ".join(f"`{code}`" for code, kind in ERRORS.items() if kind.exit_code is exit_code)
        yield f"| {exit_code.value} | {exit_code.meaning} | {'every other' if exit_code is ExitCode.ERROR else codes} |"
    yield ""


def _settings() -> Iterator[str]:
    yield SETTINGS_HEAD
    for name, setting in SETTINGS.items():
        variables = [one for one in (setting.variable, variable_of(name)) if one] if setting.in_environment else []
        variable = ", ".join(f"`{one}`" for one in variables)
        default = setting.kind.show(DEFAULTS[name])
        if name == "lanes":
            variable, default = "`INTERLOCK_LANE_<NAME>`", setting.kind.show(DEFAULT_LANES)
        yield f"| `{name}` | {variable} | {_code(default)} | {_text(setting.help)} |"
    for name, setting in CLIENT_SETTINGS.items():
        yield f"| | `{variable_of(name)}` | | {_text(setting.help)} The same as `{flag_of(name)}`. |"


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def document() -> str:
    return "\n".join(lines()) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(document())
    sys.stdout.write(f"wrote {DOCUMENT}\n")
