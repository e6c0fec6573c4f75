"""Types of the parameters of operations: HTTP, messages and clients check the same rules.

Some types are wider for callers in Python than over HTTP. Type checkers see the wide one; `client/http/request.py`
brings what a caller gives into the form that HTTP has.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union

from msgspec import Meta

from interlock.error import BadValue
from interlock.fields.field_types import NAME as NAME_FORM
from interlock.model.job import JOB_ID, NAME
from interlock.model.schedule import schedule
from interlock.model.session import LONGEST_SESSION

K = TypeVar("K")

SESSION_CURSOR = rf"k{NAME_FORM}/[\s\S]{{1,512}}"  # tenant and key

NameText = Annotated[str, Meta(min_length=1, max_length=64, pattern=f"^{NAME.pattern}$")]
JobId = Annotated[str, Meta(min_length=1, max_length=128, pattern=f"^{JOB_ID.pattern}$")]
FilterText = Annotated[str, Meta(max_length=256)]
ShortText = Annotated[str, Meta(max_length=64)]
SessionText = Annotated[str, Meta(max_length=LONGEST_SESSION)]
Reason = Annotated[str, Meta(max_length=1000)]
Instant = datetime | float | str
"""a time with its zone, seconds since 1970, or a text such as 2030-01-31T02:00:00Z, which is UTC by default"""

if TYPE_CHECKING:
    Moment = Instant
    PageSize = int | None
    OneOf = Union[K, str]  # noqa: UP007 - an alias with a variable
    SomeOf = Union[K, str, Iterable[K | str]]  # noqa: UP007 - likewise
else:
    Moment = Annotated[datetime, Meta(tz=True)] | Annotated[float, Meta(ge=0, lt=schedule.LATEST_TIME)]
    """a time in RFC 3339, or seconds since 1970"""
    PageSize = Annotated[int, Meta(description="Most items to return.", ge=1, le=1000)]

    class OneOf:
        """One of the values of an enumeration; Python takes it as a text too."""

        def __class_getitem__(cls, kind: Any) -> Any:
            return kind

    class SomeOf:
        """Some values of an enumeration; Python takes one alone, or a text, too."""

        def __class_getitem__(cls, kind: Any) -> Any:
            return list[kind]


def text(description: str, pattern: str) -> Meta:
    """Describe a text whose form is checked with a clearer error than a pattern gives."""
    return Meta(description=description, extra_json_schema={"pattern": pattern})


def cursor_form(pattern: str) -> Meta:
    return text("`next` of the page before; leave it out for the first page.", f"^{pattern}$")


def instant(value: Instant, field: str) -> float:
    """Return seconds since 1970. A `datetime` must have a zone, because a naive one often means local time."""
    if isinstance(value, datetime) and value.tzinfo is None:
        raise BadValue(field, value, "a time with a time zone")
    return schedule.instant(value, field)
