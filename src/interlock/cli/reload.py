"""`interlock reload`."""

from interlock.cli.options import FINDING, Flags, JsonOption, takes


@takes(*FINDING)
def command(flags: Flags, json: JsonOption = False) -> None:
    """Have the server read its files again, and bring the services in line with them.

    Where there is any fault in the files everything is left as it is. Piped: what happened and to which service, with a
    tab between them."""
    import sys

    from interlock.cli.server import client_of
    from interlock.cli.tables import out, plain, print_json

    with client_of(flags) as client:
        reloaded = client.reload()
    if json:
        print_json(reloaded)
        return
    for what in reloaded.__struct_fields__:
        names = getattr(reloaded, what)
        if not sys.stdout.isatty():
            for name in names:
                out(f"{what}\t{plain(name)}")
        elif names:
            out(f"{what}: {plain(', '.join(names))}")
    if sys.stdout.isatty() and not any(getattr(reloaded, what) for what in reloaded.__struct_fields__):
        out("no services")
