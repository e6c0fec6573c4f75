"""`interlock import`."""
# ruff: noqa: N999 - each command is in the file of its name

from typing import Annotated

import typer

from interlock.cli.shared import completion
from interlock.cli.shared.options import argument, option, switch

KINDS = ("crontab", "celery-beat", "apscheduler", "systemd")


def command(
    kind: Annotated[str, argument("KIND", f"{', '.join(KINDS[:-1])} or {KINDS[-1]}.", completion.of(*KINDS))],
    file: Annotated[str, argument("FILE", "File to read; '-' is standard input.")],
    output: Annotated[
        str | None, option("PATH", "File to write, or folder for it. Default: standard output.", "--output", "-o")
    ] = None,
    tz: Annotated[str | None, option("ZONE", "Time zone of times without one. Default: this machine's.")] = None,
    system: Annotated[
        bool, switch("Read a crontab with a user on each line, like /etc/crontab and /etc/cron.d.", "--system")
    ] = False,
) -> None:
    """Write job files from a crontab, a Celery beat schedule, an APScheduler program or a systemd timer.

    Python files are read, never executed. Comments in the written file name whatever could not be carried over."""
    import os
    import time
    from importlib import import_module

    from interlock.cli.draw.zones import named_zone, zone_name
    from interlock.cli.shared.output import WrongUsage, check_choice
    from interlock.error import BadUse, BadValue, shown
    from interlock.error_lines import say
    from interlock.importers.draft import Imported, ImportSource, write

    check_choice("KIND", kind, KINDS)
    if system and kind != "crontab":
        raise WrongUsage("--system: only for a crontab")
    named_zone(zone := tz or zone_name(None))
    target, path = output, None if file == "-" else file
    if output is not None and (os.path.isdir(output) or output.endswith("/")):
        target = os.path.join(output, f"{kind if path is None else os.path.splitext(os.path.basename(path))[0]}.yaml")
    source = ImportSource(
        name=path or "standard input",
        text=_text(file),
        path=path,
        folder=os.path.dirname(os.path.abspath(target or "x")),
        tz=zone,
        system=system or file == "/etc/crontab" or file.startswith("/etc/cron.d/"),
    )
    imported: Imported = import_module(f"interlock.importers.{kind.replace('-', '_')}").read(source)
    if not imported.drafts:
        raise BadUse("FILE", f"{shown(source.name)} has no job; is it a file of kind {kind}?")
    title = f"Written by 'interlock import {kind} {file}'. Read the comments, then: interlock check FILE"
    text, count = write(title, imported, source.folder, time.time())
    if target is None:
        typer.echo(text, nl=False)
    else:
        try:
            # An environment may hold secrets: the file is for its user alone.
            with open(target, "x", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as stream:
                stream.write(text)
        except OSError as error:
            raise BadValue("--output", target, f"a new file that can be written ({error.strerror})") from None
        say(f"written: {target}")
    left = len(imported.drafts) - count
    say(f"{count} of {len(imported.drafts)} jobs carried over{': see the comments' if left else ''}")


def _text(file: str) -> str:
    import sys

    from interlock.config.plain_yaml import read_text
    from interlock.error import BadValue

    if file != "-":
        return read_text(file, file)
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadValue("FILE", file, "UTF-8 text") from None
