"""What a reload has changed, in words."""

from collections.abc import Iterator, Sequence

from interlock.model.reload_report import Reloaded

MOST_NAMES = 10
"""of one kind in one line"""


def changes(reloaded: Reloaded) -> Iterator[tuple[str, str, list[str]]]:
    """What happened, to jobs or services, and to which; only where there are any."""
    for what in ("added", "changed", "removed", "unchanged"):
        for kind, difference in (("job", reloaded.jobs), ("service", reloaded.services)):
            names = getattr(difference, what)
            if names:
                yield what, kind, names


def in_one_line(reloaded: Reloaded) -> str:
    """For those who look at a server."""
    found = [f"{what} {kind} {_some(names)}" for what, kind, names in changes(reloaded) if what != "unchanged"]
    return f"reloaded: {'; '.join(found) or 'nothing has changed'}"


def _some(names: Sequence[str]) -> str:
    rest = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {rest:,} more" if rest > 0 else "")
