"""`interlock reload`."""

from interlock.cli.options import FINDING, Flags, JsonOption, takes


@takes(*FINDING)
def command(flags: Flags, json: JsonOption = False) -> None:
    """Have the server read its files again, and bring jobs and services in line with them.

    Where there is any fault in the files everything is left as it is. Piped: what happened, to a job or a service, and
    to which, with a tab between them."""
    import sys

    from interlock.cli.reloads import changes
    from interlock.cli.server import client_of
    from interlock.cli.tables import out, plain, print_json

    with client_of(flags) as client:
        reloaded = client.reload()
    if json:
        print_json(reloaded)
        return
    found = list(changes(reloaded))
    for what, kind, names in found:
        if sys.stdout.isatty():
            out(f"{what} {kind}s: {plain(', '.join(names))}")
        else:
            for name in names:
                out(f"{what}\t{kind}\t{plain(name)}")
    if sys.stdout.isatty() and not found:
        out("no jobs and no services")
