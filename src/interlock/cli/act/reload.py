"""`interlock reload`."""

from interlock.cli.draw.format import changes_of
from interlock.cli.draw.tables import plain, present, tabbed
from interlock.cli.shared.options import FINDING, Flags, JsonOption, takes
from interlock.cli.shared.server import client_of


@takes(*FINDING)
def command(flags: Flags, json: JsonOption = False) -> None:
    """Read the files again, and apply changes of jobs and services.

    If any file has a fault, nothing changes. Piped: the change, `job` or `service`, and its name, separated by tabs."""
    with client_of(flags) as client:
        reloaded = client.reload()
    found = list(changes_of(reloaded))
    present(
        json,
        lambda: reloaded,
        lambda: (tabbed(what, kind, name) for what, kind, names in found for name in names),
        lambda: (
            "\n".join(f"{what} {kind}s: {plain(', '.join(names))}" for what, kind, names in found)
            or "no jobs and no services"
        ),
    )
