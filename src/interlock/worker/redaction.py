"""Keeping an attempt's secrets out of what is written about it."""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from os.path import commonprefix
from typing import Any
from urllib.parse import quote, quote_plus

from interlock.model.secret import MARK, MASK, NameTest

SHORTEST_TEXT = 4
"""characters below which a secret is not looked for: to replace it would spoil every text"""
SHORTEST_NUMBER = 6
"""the same for a number, of which a text has many that mean something else, and for a key"""
SHORTEST_LINE = 8
"""the same for one line of a secret that has several"""
SHORTEST_START = 16
"""characters of a longer secret that give it away: whoever quotes it may have cut it"""
MOST = 1000
"""secrets beyond which a text is not searched for them, but left out whole"""


def texts_of(value: Any, names: Collection[str], is_secret: NameTest) -> set[str]:
    """The secrets in a payload: what is marked, what has the name of one, and the arguments in `names`.

    What is below one of these is a secret too, the keys included.
    """
    found: set[str] = set()
    # A list of what is still to be looked at, for a payload may be nested deeper than calls can be.
    rest: list[tuple[Any, bool]] = [(value, False)]
    if type(value) is dict:
        rest = [(item, key in names or is_secret(key)) for key, item in value.items()]
    while rest:
        item, secret = rest.pop()
        kind = type(item)
        if kind is dict:
            rest.extend((below, secret or is_secret(key)) for key, below in item.items())
            if secret:
                found.update(key for key in item if key != MARK and not _is_word(key))
        elif kind is list:
            rest.extend((below, secret) for below in item)
        elif secret and kind is str:
            found.add(item)
        elif secret and kind in (int, float) and len(str(item)) >= SHORTEST_NUMBER:
            found.add(str(item))
    return found


def _is_word(key: str) -> bool:
    """Whether a key is too plain to be looked for: the name of a field, or a small number."""
    return len(key) < SHORTEST_NUMBER or key.replace("_", "").isalpha()


class Redaction:
    """Replaces secrets in texts, as they are and as Python, JSON and URLs write them; also one that is cut short."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self.secrets = frozenset(secrets)
        self._forms: list[str] = []
        self._starts: dict[str, list[str]] = {}
        """how the longer forms begin, with the forms that begin so"""
        if len(self.secrets) <= MOST:
            forms = {form for secret in self.secrets for part in _parts(secret) for form in _forms(part)}
            # The longest first: one secret may be part of another.
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
    """The text without what begins as one of the forms does, for as long as it goes on like one of them."""
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
