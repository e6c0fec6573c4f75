"""`interlock lanes`."""

from interlock.cli.options import FINDING, Flags, JsonOption, takes


@takes(*FINDING)
def command(flags: Flags, json: JsonOption = False) -> None:
    """List lanes: limit, active runs, waiting runs, and how long the oldest of these has waited.

    Piped: id, limit, active, waiting and seconds of the oldest wait, with tabs between them."""
    import sys

    from interlock.cli.format import span
    from interlock.cli.server import client_of
    from interlock.cli.tables import Column, print_json, print_table

    with client_of(flags) as client:
        lanes = client.lanes()
    if json:
        print_json({"lanes": lanes})
        return
    wait_text = span if sys.stdout.isatty() else "{:.3f}".format
    waits = ["" if one.oldest_wait is None else wait_text(one.oldest_wait) for one in lanes]
    print_table(
        [Column("lane"), *(Column(name, right=True) for name in ("limit", "active", "waiting", "oldest wait"))],
        [
            (one.id, *map(str, (one.limit, one.active, one.waiting)), wait)
            for one, wait in zip(lanes, waits, strict=True)
        ],
    )
