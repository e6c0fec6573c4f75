"""Redaction of an attempt's secrets in logs, reports and errors."""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from os.path import commonprefix
from typing import Any
from urllib.parse import quote, quote_plus

from interlock.fields.secret import MARK, MASK, NameTest

SHORTEST_TEXT = 4  # characters of the shortest secret to look for: replacing shorter ones would spoil every text
SHORTEST_NUMBER = 6  # the same for a number, because texts have many short ones, and for a key
SHORTEST_LINE = 8  # the same for one line of a secret of several lines
SHORTEST_START = 16  # first characters of a longer secret that give it away, in case it was cut
MOST = 1000  # number of secrets beyond which a text is masked as a whole


def texts_of(value: Any, names: Collection[str], is_secret: NameTest) -> set[str]:
    """Return the secrets in a payload: marked values, texts with the name of a secret, and the arguments in `names`.
    Everything below one of these is a secret too, including keys; numbers only below one of `names`."""
    found: set[str] = set()
    # A list instead of recursion, because a payload may be nested deeper than calls can be.
    rest: list[tuple[Any, bool, bool]] = [(value, False, False)]
    if type(value) is dict:
        rest = [(item, key in names or is_secret(key), key in names) for key, item in value.items()]
    while rest:
        item, secret, whole = rest.pop()
        kind = type(item)
        if kind is dict:
            rest.extend((below, secret or is_secret(key), whole) for key, below in item.items())
            if secret:
                found.update(key for key in item if key != MARK and not _is_word(key))
        elif kind is list:
            rest.extend((below, secret, whole) for below in item)
        elif secret and kind is str:
            found.add(item)
        elif whole and kind in (int, float) and len(str(item)) >= SHORTEST_NUMBER:
            found.add(str(item))
    return found


def _is_word(key: str) -> bool:
    """Return whether a key is too plain to look for: the name of a field, or a small number."""
    return len(key) < SHORTEST_NUMBER or key.replace("_", "").isalpha()


class Redaction:
    """Masks secrets in texts, in plain form and as Python, JSON and URLs write them, even if they are cut short."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self.secrets = frozenset(secrets)
        self._forms: list[str] = []
        self._starts: dict[str, list[str]] = {}  # the longer forms, by their first characters
        if len(self.secrets) <= MOST:
            forms = {form for secret in self.secrets for part in _parts(secret) for form in _forms(part)}
            # The longest first, because one secret may be part of another.
            self._forms = sorted(forms, key=len, reverse=True)
            for form in self._forms:
                if len(form) > SHORTEST_START:
                    self._starts.setdefault(form[:SHORTEST_START], []).append(form)

    def __call__(self, text: str) -> str:
        if len(self.secrets) > MOST:
            return MASK
        for form in self._forms:
            if form in text:
                text = text.replace(form, MASK)
        for start, forms in self._starts.items():
            if start in text:
                text = _without_parts(text, start, forms)
        return text


NO_SECRETS = Redaction(())


def _without_parts(text: str, start: str, forms: Sequence[str]) -> str:
    """Mask every beginning of one of the forms, as far as it matches."""
    kept, *found = text.split(start)
    for rest in found:
        known = max(len(commonprefix((rest, form[len(start) :]))) for form in forms)  # noqa: RUF071 - characters are meant
        kept += MASK + rest[known:]
    return kept


def _parts(secret: str) -> Iterator[str]:
    for whole in (secret, secret.strip()):
        if len(whole) >= SHORTEST_TEXT:
            yield whole
    lines = secret.splitlines()
    if len(lines) > 1:
        # A key of several lines is often indented, or logged line by line.
        yield from (line.strip() for line in lines if len(line.strip()) >= SHORTEST_LINE)


def _forms(text: str) -> tuple[str, ...]:
    return (
        text,
        repr(text)[1:-1],
        ascii(text)[1:-1],
        repr(text.encode())[2:-1],
        json.dumps(text)[1:-1],
        json.dumps(text, ensure_ascii=False)[1:-1],
        quote(text),
        quote(text, safe=""),
        quote_plus(text),
    )
