"""Globs: `*` for any text, `?` for one character, `[abc]` for one of some. Upper and lower case differ."""

import re
from collections.abc import Callable, Iterable
from fnmatch import translate
from functools import lru_cache

_SPECIAL = re.compile(r"[*?\[]")


def is_exact(glob: str) -> bool:
    return _SPECIAL.search(glob) is None


def beginning(glob: str) -> str:
    """Return the text with which every match begins."""
    return _SPECIAL.split(glob, maxsplit=1)[0]


@lru_cache(100_000)
def matcher(globs: tuple[str, ...]) -> Callable[[str], object]:
    """Return a function that is true of a text that any of the globs matches."""
    exact = frozenset(glob for glob in globs if is_exact(glob))
    if len(exact) == len(globs):
        return exact.__contains__
    if "*" in globs:
        return lambda text: True
    return re.compile("|".join(translate(glob) for glob in globs)).match


def first_match(globs: Iterable[str], text: str) -> str | None:
    return next((glob for glob in globs if matcher((glob,))(text)), None)
