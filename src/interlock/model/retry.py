"""Retries: how often and after which delays a failed run is tried again."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar

from interlock.fields.field import Checked, doc
from interlock.fields.field_types import Number, Span, Whole
from interlock.model.failure import ExceptionTypes

if TYPE_CHECKING:
    Exceptions = Sequence[type[BaseException] | str]  # as you may give them
else:
    Exceptions = tuple[str, ...]  # as they are kept


class Retry(Checked, frozen=True, kw_only=True):
    """How often and after which delays a failed run is tried again; delays in seconds."""

    where: ClassVar[str] = "retry"

    max_retries: Annotated[
        int | None, doc("Number of retries; default 3 with `every`, `cron` or `at`, 0 otherwise."), Whole(0)
    ] = None
    initial_delay: Annotated[float | str, doc("First delay."), Span()] = 2.0
    multiplier: Annotated[float, doc("Factor from each delay to the next."), Number(1, 1000)] = 2.0
    max_delay: Annotated[float | str, doc("Longest delay."), Span()] = 30.0
    jitter: Annotated[float, doc("Share by which each delay is randomly longer or shorter."), Number(0, 1)] = 0.25

    on: Annotated[Exceptions, doc("Exceptions that are retried; by default all."), ExceptionTypes()] = ()
    never: Annotated[Exceptions, doc("Exceptions that are not retried, whatever `on` says."), ExceptionTypes()] = ()

    def delay(self, retry: int, spread: float) -> float:
        """Seconds before retry number `retry` (0 is the first); `spread` from -1 to 1 places it within the jitter."""
        initial, longest = float(self.initial_delay), float(self.max_delay)
        # The power of a large count overflows a float long after the cap has been reached.
        factor = self.multiplier ** min(retry, 100)
        return max(0.0, min(initial * factor, longest) * (1 + self.jitter * spread))

    def covers(self, types: Iterable[str]) -> bool:
        """Return whether a failure with these types is retried."""
        found = set(types)
        return found.isdisjoint(self.never) and not (self.on and found.isdisjoint(self.on))
