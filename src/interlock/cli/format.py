"""How runs, times and durations read in a terminal."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from interlock.model.state import TERMINAL, State

if TYPE_CHECKING:
    from interlock.model.run_view import RunInfo

COLOURS = {
    State.SUCCEEDED: "green",
    State.RUNNING: "cyan",
    State.FAILED: "red",
    State.TIMEOUT: "red",
    State.ORPHANED: "red",
    State.DENIED: "red",
    State.OUTPUT_QUARANTINED: "red",
    State.RETRYING: "yellow",
    State.CANCELLED: "yellow",
    State.SKIPPED: "yellow",
}

LEVELS = {"DEBUG": "dim", "WARNING": "yellow", "ERROR": "red", "CRITICAL": "bold red"}


def span(seconds: float) -> str:
    """A duration in two units at the most."""
    seconds = max(0.0, seconds)
    if seconds < 0.0995:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    for (big, size), (small, part) in ((("m", 60), ("s", 1)), (("h", 3600), ("m", 60)), (("d", 86400), ("h", 3600))):
        if whole < size * 60 or big == "d" or (big == "h" and whole < 86400):
            rest = whole % size // part
            return f"{whole // size}{big}" + (f" {rest}{small}" if rest else "")
    raise AssertionError("days have no end")


def ago(at: float, now: float) -> str:
    return f"{span(now - at)} ago" if at <= now else f"in {span(at - now)}"


def local(at: float) -> str:
    """The exact time where the reader is."""
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def clock(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%H:%M:%S.%f")[:-3]


def exact(at: float | None) -> str:
    """For programs: the same wherever it is read."""
    return (
        "" if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


def took(run: "RunInfo", now: float) -> float | None:
    """Seconds since the first attempt began, or until the run ended."""
    if run.started_at is None:
        return None
    return (run.ended_at if run.ended_at is not None else now) - run.started_at


def why(run: "RunInfo") -> str:
    """What there is to say about the state: progress, the error's last line, or the reason."""
    if run.progress is not None and run.state not in TERMINAL:
        return f"{run.progress.percent:.0f}% {run.progress.text}".strip()
    if run.error and run.error.strip() and run.state is not State.SUCCEEDED:
        return run.error.strip().splitlines()[-1]
    return run.reason
