"""`interlock doctor`."""

from typing import Annotated, Any

import typer

from interlock.cli.shared.options import Flags, JsonOption, option, takes

MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "failed": ("✗", "red")}


@takes("app", "database", "socket", "http", "url", "token")
def command(
    flags: Flags,
    repair_copy: Annotated[
        str | None, option("NEWFILE", "Only copy the readable rows of a damaged database into a new file.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Check everything Interlock depends on, and suggest fixes."""
    import sys

    from interlock.runtime import require_linux

    require_linux()
    from interlock.cli.check import doctor_checks
    from interlock.cli.check.server_checks import server
    from interlock.cli.draw.tables import console, out, plain, print_json, tabbed
    from interlock.config.resolve import defaults
    from interlock.error import InterlockError
    from interlock.fields.sockets import is_on_server

    try:
        resolved = flags.resolve()
        unread = [doctor_checks.warn("settings", f"{one} is not read", fix) for one, fix in resolved.unread.items()]
        findings = [doctor_checks.settings_file(resolved), *unread]
    except InterlockError as error:
        fix = "fix it; the other checks use the defaults"
        resolved, findings = defaults(), [doctor_checks.fail("settings", str(error), fix)]
    settings = resolved.settings
    if repair_copy is not None:
        findings += doctor_checks.repair(str(settings.database_file()), repair_copy)
    else:
        findings += doctor_checks.machine(settings)
        findings += doctor_checks.folder(settings.database)
        if is_on_server(settings.database):
            findings += doctor_checks.server_database(settings.database)
        else:
            findings += doctor_checks.database(settings.database)
        findings += doctor_checks.stored_runs(settings)
        findings += server(flags, resolved)
        findings += doctor_checks.app_and_files(settings)
    failed = any(finding.level == "failed" for finding in findings)
    if sys.stdout.isatty() and not json:
        from rich.text import Text

        width = max(len(finding.name) for finding in findings) + 2
        for one in findings:
            mark, colour = MARKS[one.level]
            parts: list[Any] = [(f"{mark} ", colour), (f"{one.name:<{width}}", "bold"), plain(one.detail)]
            parts += [(f"\n  {'':<{width}}→ {plain(one.fix)}", colour)] if one.fix else []
            console().print(Text.assemble(*parts), soft_wrap=True)
    elif json:
        print_json({"ok": not failed, "checks": findings})
    else:
        for one in findings:
            out(tabbed(one.level, one.name, one.detail, one.fix))
    if failed:
        raise typer.Exit(1)
