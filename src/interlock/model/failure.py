"""The outcome of an attempt. Of a failed one: the exception's types and message, and the delay it asked for."""

import re
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from interlock.error import BadDuration, BadValue, Fatal, InterlockError
from interlock.fields.duration import Duration, brief
from interlock.fields.field import doc
from interlock.fields.field_types import FieldPath, Span, Text, Texts

LONGEST_MESSAGE = 1000
MOST_TYPES = 50
TIMED_OUT = ("TimeoutError", "OSError", "Exception", "BaseException")  # the types of an attempt that ran too long
_NAME = r"[^\W\d]\w*(?:\.(?:[^\W\d]\w*|<locals>)){0,20}"
_MAIN = re.compile(r"__interlock_main(?:_\d+)?__")

Seconds = Annotated[float, Meta(ge=0, le=1e11)]
TypeName = Annotated[str, Meta(max_length=LONGEST_MESSAGE)]


class Failure(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A facet: the latest attempt of a run failed with this exception."""

    types: Annotated[
        list[TypeName],
        doc("Qualified names of the exception's class and its bases.", min_length=1, max_length=MOST_TYPES),
    ]
    message: Annotated[str, doc("Text of the exception, without secrets.", max_length=LONGEST_MESSAGE)] = ""
    retry_after: Annotated[Seconds | None, doc("Delay in seconds that `RetryAfter` asked for.")] = None


class RetryAfter(InterlockError, code="retry_after"):
    """Raised by a handler: this attempt failed; retry it after this delay if a retry is left."""

    def __init__(self, delay: Duration, reason: str = "") -> None:
        try:
            self.delay = Span().check(delay, FieldPath("RetryAfter"))
        except (BadDuration, BadValue) as error:
            # A retry would not fix the program.
            raise Fatal(str(error)) from None
        super().__init__(reason or f"asked for a retry after {brief(self.delay)}")


def delay_of(error: BaseException) -> float | None:
    """Return the delay that the exception asks for, checked once more: a program may have changed it."""
    return Span().check(error.delay, FieldPath("RetryAfter")) if isinstance(error, RetryAfter) else None


def type_name(kind: type[BaseException]) -> str:
    """Return the qualified name of a class, without `builtins`. A class of a script has the same name in the script
    and in the workers that load it."""
    module, name = str(kind.__module__), str(kind.__qualname__)
    return name if module == "builtins" else f"{_MAIN.sub('__main__', module)}.{name}"


def types_of(error: BaseException) -> list[str]:
    found = [type_name(kind) for kind in type(error).__mro__ if issubclass(kind, BaseException)]
    return [name[:LONGEST_MESSAGE].encode("utf-8", "replace").decode() for name in found[:MOST_TYPES]]


class ExceptionTypes(Texts):
    """A list of exceptions: classes, or their qualified names."""

    def __init__(self) -> None:
        each = Text(_NAME, "an exception class or its qualified name, such as OSError or requests.exceptions.Timeout")
        super().__init__(each, expected="a list of exceptions, such as [OSError]", make=tuple)

    def check(self, value: Any, place: FieldPath) -> Any:
        if isinstance(value, (list, tuple)):
            is_exception = [isinstance(item, type) and issubclass(item, BaseException) for item in value]
            value = [type_name(item) if fits else item for item, fits in zip(value, is_exception, strict=True)]
        return super().check(value, place)


class Outcome(StrEnum):
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    FAILED_FATAL = "failed_fatal"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"


_WORDS = {str(outcome): outcome for outcome in Outcome} | {"completed": Outcome.SUCCEEDED}


def read_outcome(word: str) -> Outcome:
    """Return the outcome of a word; an unknown word is a failure."""
    return _WORDS.get(word, Outcome.FAILED)
