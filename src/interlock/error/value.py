"""Errors of single values and fields."""

import re
from collections.abc import Sequence

from interlock.error.base import BadInput, InterlockError, TooLarge, shown


def hint(suggestion: str | None) -> str:
    return f"; did you mean {suggestion!r}?" if suggestion else ""


class BadValue(BadInput, code="bad_value"):
    """A value is of the wrong type or not allowed, or a field cannot be given here."""

    def __init__(self, field: str, value: object, expected: str) -> None:
        super().__init__(f"{field}: {shown(value)} is not {expected}")
        self.field, self.value = field, value


class BadUse(BadValue):
    """A field was given twice, without a field that it needs, or with a field that excludes it."""

    def __init__(self, field: str, rule: str, value: object = None) -> None:
        """`rule` follows the field: "cannot be combined with at", "needs scanners"."""
        InterlockError.__init__(self, f"{field}: {rule}")
        self.field, self.value = field, value


class Ambiguous(BadUse):
    """Several ids begin as given."""

    def __init__(self, field: str, value: str, ids: Sequence[str], most: int = 5) -> None:
        listed = ", ".join(ids[:most]) + (" and others" if len(ids) > most else "")
        super().__init__(field, f"{shown(value)} is ambiguous: it begins {listed}; give more of the id", value)


class TooMany(BadUse):
    """More were given than are allowed."""

    def __init__(self, field: str, count: int, most: int, advice: str = "") -> None:
        super().__init__(field, f"{count:,} given; at most {most:,} are allowed{advice and f'; {advice}'}", count)


class Repeated(BadUse):
    """A value, or a field, was given twice."""

    def __init__(self, field: str, value: object, advice: str = "allowed once") -> None:
        super().__init__(field, f"{shown(value)} given twice; {advice}", value)


class NotHere(BadUse):
    """A value is valid elsewhere, but not allowed here."""

    def __init__(self, field: str, value: object, where: str, advice: str) -> None:
        super().__init__(field, f"{shown(value)} is not allowed {where}; {advice}", value)


class BadDuration(BadInput, code="bad_duration"):
    """The text is not a duration like `800ms`, `10s`, `5m`, `2h` or `1d`."""

    def __init__(self, field: str, value: object, expected: str = "a duration; use 800ms, 10s, 5m, 2h or 1d") -> None:
        super().__init__(f"{field}: {shown(value)} is not {expected}")
        self.field, self.value = field, value


class BadPayload(BadInput, code="bad_payload"):
    """The payload does not fit the arguments of the job's handler."""

    def __init__(self, job_id: str, problem: str) -> None:
        super().__init__(f"payload of {job_id!r}: {problem}")


class NotJson(BadInput, code="not_json"):
    """A value in the payload cannot be kept as JSON."""

    def __init__(self, where: str, what: str, why: str = "") -> None:
        """`what` names the kind of value and never quotes it: it may be a secret."""
        # The place consists of the user's keys, so it is shown whole or not at all, like any value.
        place = where if len(where) <= 200 and where.isprintable() else re.split(r"[.\[]", where, maxsplit=1)[0] + "…"
        super().__init__(f"{place}: {what} is not JSON{f' ({why})' if why else ''}")
        self.what, self.why = what, why


class PayloadTooLarge(TooLarge, code="payload_too_large"):
    """A payload is larger than 1 MiB, or the payloads of a batch are too large together."""

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(f"{what}: {size:,} bytes as JSON; the limit is {limit:,}")


class StreamCut(TooLarge, code="stream_cut"):
    """The stream of a run is cut at a limit. The run continues."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"stream of run {run_id}: cut at a limit: log_lines or log_bytes, which you can raise, or those of a "
            "worker, 100,000 messages or 16 MiB of an attempt; the log of the run says which"
        )


class UnknownField(BadInput, code="unknown_field"):
    """The body or the query has a field that does not exist; a close one is suggested."""

    def __init__(self, field: str, suggestion: str | None = None) -> None:
        super().__init__(f"{shown(field)} is not a field here{hint(suggestion)}")
        self.field = field


class MissingField(BadInput, code="missing_field"):
    """A required field is missing."""

    def __init__(self, field: str) -> None:
        super().__init__(f"{field}: missing, but required")
        self.field = field
