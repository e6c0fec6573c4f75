"""Secrets: values that reach a handler and are shown to nobody.

In a payload a secret travels as `{"$secret": "…"}`. A text may also be a secret by its name. Views mask secrets in
payloads, and the executor process removes them from logs and errors before anything leaves it. The database stores them
in clear text, marked.
"""

import re
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from hmac import compare_digest
from typing import Any, NoReturn, final

import msgspec

from interlock.error import BadInput

MARK = "$secret"
MARKED = b'"$secret"'
MASK = "•••"

# Words that mark a text as a secret when its name ends in one of them, in upper or lower case.
SECRET_NAMES = (
    "password", "passwords", "passwd", "passphrase", "pgpassword", "secret", "secrets", "secret_key", "token",
    "api_key", "apikey", "access_key", "private_key", "authorization", "credential", "credentials",
)  # fmt: skip
# A word of a name like `db_password`, `X-Api-Key` or `accessToken2`; digits belong to none.
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+")

NameTest = Callable[[str], bool]  # tells whether a name is that of a secret

DEEPEST = 200
_LONGEST_NAME = 64  # characters up to which the answer for a name is remembered


class BadSecret(BadInput, code="bad_payload"):
    """A secret is not a text."""


@final
class Secret:
    """A text that is not shown: `reveal()` returns it, everything else says `•••`."""

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
        raise TypeError("a Secret cannot be pickled: it would be stored and sent unmarked; pickle reveal() instead")


def is_marked(data: bytes) -> bool:
    """Return whether this JSON may hold a marked secret. The mark is written without escapes."""
    return data.find(MARKED) >= 0


def as_json(value: object) -> Any:
    """Return a secret as it travels; an encoder calls this."""
    if type(value) is Secret:
        return {MARK: value.reveal()}
    raise TypeError(f"a {type(value).__name__} is not JSON")


def from_json(value: Any, where: str = "", depth: int = 0) -> Any:
    """Return a copy of a JSON value with a `Secret` in place of each marked one."""
    if depth > DEEPEST and type(value) in (dict, list):
        raise BadSecret(f"nested deeper than {DEEPEST}")
    if type(value) is dict:
        if MARK in value:
            if len(value) != 1 or type(value[MARK]) is not str:
                place = f"argument {where.removeprefix('.')!r}: " if where else ""
                raise BadSecret(f'{place}a secret is {{"{MARK}": "text"}} and nothing else')
            return Secret(value[MARK])
        return {key: from_json(item, f"{where}.{key}", depth + 1) for key, item in value.items()}
    if type(value) is list:
        return [from_json(item, f"{where}[{place}]", depth + 1) for place, item in enumerate(value)]
    return value


@lru_cache(16)
def matcher(words: tuple[str, ...]) -> NameTest:
    """Return the test for names that end in one of these words; the mark itself is always the name of a secret."""
    endings = tuple("_" + "_".join(_WORD.findall(word)).lower() for word in words)

    def test(name: str) -> bool:
        return name == MARK or ("_" + "_".join(_WORD.findall(name))).lower().endswith(endings)

    remembered = lru_cache(4096)(test)
    return lambda name: remembered(name) if len(name) <= _LONGEST_NAME else test(name)


def mask(value: Any, names: Collection[str] = (), words: Sequence[str] = SECRET_NAMES) -> Any:
    """Return a copy of a JSON value, such as a payload, that can be shown.

    Marked values, the arguments in `names`, and texts whose name ends in one of the words are masked.
    """
    return _hide(value, names, words, lambda: MASK)


def has_secret(data: bytes, names: Collection[str] = (), words: Sequence[str] = SECRET_NAMES) -> bool:
    """Return whether JSON has anything that `mask` would hide, or has hidden."""
    if is_marked(data):
        return True
    try:
        _hide(msgspec.json.decode(data), names, words, _stop)
    except (_Found, RecursionError):
        return True
    return False


class _Found(Exception):
    """A secret was found."""


def _stop() -> NoReturn:
    raise _Found


def _hide(value: Any, names: Collection[str], words: Sequence[str], hidden: Callable[[], Any]) -> Any:
    """Return a copy of a JSON value with what `hidden` returns in place of each secret."""
    is_secret = matcher(tuple(words))

    def copy(value: Any, secret: bool, depth: int) -> Any:
        kind = type(value)
        if kind is Secret or depth > DEEPEST or (kind is dict and (secret or MARK in value)):
            return hidden()
        if kind is str:
            return hidden() if secret or value == MASK else value
        if kind is dict:
            return {key: copy(item, is_secret(key), depth + 1) for key, item in value.items()}
        if kind is list:
            return [copy(item, secret, depth + 1) for item in value]
        return value

    if type(value) is dict and MARK not in value:
        wanted = {name for name in names if not isinstance(value.get(name), bool | None)}
        return {key: hidden() if key in wanted else copy(item, is_secret(key), 1) for key, item in value.items()}
    return copy(value, False, 0)
