"""`interlock reload`."""

from collections.abc import Iterator

from interlock.cli.options import FINDING, Flags, JsonOption, takes
from interlock.cli.server import client_of
from interlock.cli.tables import plain, present, tabbed
from interlock.model.reload_report import Reloaded

MOST_NAMES = 10  # of one kind in one line


@takes(*FINDING)
def command(flags: Flags, json: JsonOption = False) -> None:
    """Read the files again, and apply what has changed in jobs and services.

    If any file has a fault, nothing changes. Piped: what happened, job or service, and its name, separated by tabs."""
    with client_of(flags) as client:
        reloaded = client.reload()
    found = list(_changes(reloaded))
    present(
        json,
        lambda: reloaded,
        lambda: (tabbed(what, kind, name) for what, kind, names in found for name in names),
        lambda: (
            "\n".join(f"{what} {kind}s: {plain(', '.join(names))}" for what, kind, names in found)
            or "no jobs and no services"
        ),
    )


def in_one_line(reloaded: Reloaded) -> str:
    found = [f"{what} {kind} {_some(names)}" for what, kind, names in _changes(reloaded) if what != "unchanged"]
    return f"reloaded: {'; '.join(found) or 'nothing has changed'}"


def _changes(reloaded: Reloaded) -> Iterator[tuple[str, str, list[str]]]:
    """What happened, to jobs or to services, and their names."""
    for what in ("added", "changed", "removed", "unchanged"):
        for kind, difference in (("job", reloaded.jobs), ("service", reloaded.services)):
            if names := getattr(difference, what):
                yield what, kind, names


def _some(names: list[str]) -> str:
    rest = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {rest:,} more" if rest > 0 else "")
