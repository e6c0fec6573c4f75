"""Secrets: values that reach a handler and are shown to nobody.

In a payload a secret travels as `{"$secret": "…"}`. A value may also be a secret by the name it has.
"""

import re
from collections.abc import Callable, Collection, Sequence
from fnmatch import translate
from functools import lru_cache
from hmac import compare_digest
from typing import Any, NoReturn, final

from interlock.model.error import BadInput

MARK = "$secret"
MARKED = b'"$secret"'
MASK = "•••"

SECRET_NAMES = (
    "*password*",
    "*passwd*",
    "*secret*",
    "*token*",
    "*api_key*",
    "*apikey*",
    "*authorization*",
    "*credential*",
    "*private_key*",
)
"""names, in upper or lower case, whose values are secrets"""

NameTest = Callable[[str], bool]
"""whether a name is one of a secret"""

DEEPEST = 200
_LONGEST_NAME = 64
"""characters up to which it is remembered whether a name is a secret's"""


class BadSecret(BadInput, code="bad_payload"):
    """A secret is not a text."""


@final
class Secret:
    """A text that is not shown: `reveal()` gives it, everything else says `•••`."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        if not isinstance(value, str):
            raise BadSecret(f"a Secret is a text, not a {type(value).__name__}")
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return MASK

    def __format__(self, specification: str) -> str:
        return format(MASK, specification)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return compare_digest(
            self._value.encode("utf-8", "surrogatepass"), other._value.encode("utf-8", "surrogatepass")
        )

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __copy__(self) -> "Secret":
        return self

    def __deepcopy__(self, memo: object) -> "Secret":
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a Secret is not pickled, or it would be kept and sent unseen; reveal() it where that is meant")


def is_marked(data: bytes) -> bool:
    """Whether this JSON may hold a marked secret. The mark is written as it is, not with escapes."""
    return data.find(MARKED) >= 0


def as_json(value: object) -> Any:
    """A secret as it travels; for an encoder that meets one."""
    if type(value) is Secret:
        return {MARK: value.reveal()}
    raise TypeError(f"a {type(value).__name__} is not JSON")


def from_json(value: Any, where: str = "", depth: int = 0) -> Any:
    """A copy of a JSON value in which what is marked is a `Secret`."""
    if type(value) is dict:
        if depth > DEEPEST:
            raise BadSecret(f"nested deeper than {DEEPEST}")
        if MARK in value:
            if len(value) != 1 or type(value[MARK]) is not str:
                place = f"argument {where.removeprefix('.')!r}: " if where else ""
                raise BadSecret(f'{place}a secret is {{"{MARK}": "text"}} and nothing else')
            return Secret(value[MARK])
        return {key: from_json(item, f"{where}.{key}", depth + 1) for key, item in value.items()}
    if type(value) is list:
        if depth > DEEPEST:
            raise BadSecret(f"nested deeper than {DEEPEST}")
        return [from_json(item, f"{where}[{place}]", depth + 1) for place, item in enumerate(value)]
    return value


@lru_cache(16)
def matcher(patterns: tuple[str, ...]) -> NameTest:
    """The test for these patterns; the mark itself is the name of a secret whatever they are."""
    found = re.compile("|".join([re.escape(MARK) + r"\Z", *map(translate, patterns)]), re.IGNORECASE).match
    remembered = lru_cache(4096)(lambda name: found(name) is not None)
    return lambda name: remembered(name) if len(name) <= _LONGEST_NAME else found(name) is not None


def mask(value: Any, names: Collection[str] = (), patterns: Sequence[str] = SECRET_NAMES) -> Any:
    """A copy of a JSON value, such as a payload, to be shown.

    What is marked, what has a name that one of the patterns matches, and the arguments in `names` are masked.
    """
    is_secret = matcher(tuple(patterns))
    if type(value) is dict and MARK not in value:
        return {key: _mask(item, key in names or is_secret(key), is_secret, 1) for key, item in value.items()}
    return _mask(value, False, is_secret, 0)


def _mask(value: Any, secret: bool, is_secret: NameTest, depth: int) -> Any:
    if value is None or type(value) is bool:
        return value
    kind = type(value)
    if secret or kind is Secret or depth > DEEPEST or (kind is dict and MARK in value):
        return MASK
    if kind is dict:
        return {key: _mask(item, is_secret(key), is_secret, depth + 1) for key, item in value.items()}
    if kind is list:
        return [_mask(item, False, is_secret, depth + 1) for item in value]
    return value
