"""Compile the declared scanners, scan a result, decide, and redact."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any, NamedTuple

from interlock.error import BadUse, BadValue
from interlock.fields.field_types import did_you_mean
from interlock.model.policy.scanner import OutputAction, ScannerKind, ScannerSpec, compile_re2, load_re2
from interlock.policy.scan import document as documents
from interlock.policy.scan.detector import CLEAN, Detector, Detectors, Finding, Scan, marker
from interlock.policy.scan.personal_data import personal_data
from interlock.policy.scan.prompt_injection import prompt_injection
from interlock.policy.scan.secrets import ROUNDS, secrets

MOST_FINDINGS = 1000
MOST_BYTES = 16 * 1024 * 1024
LONGEST_TYPE = 256  # characters of a content type to compare with globs
RANK = {action: rank for rank, action in enumerate(OutputAction)}
KIND = re.compile(r"[A-Za-z0-9_.-]{1,64}")

_ALLOW = OutputAction.ALLOW

Hit = tuple[int, int, str]
"""start, end, kind"""
Noted = tuple[Finding, OutputAction]
OwnScanner = Callable[[str], list[Hit] | bool | None]
Find = Callable[[bytes], Iterator[Hit]]


class _ContentScanner(NamedTuple):
    """A scanner that reads content."""

    scanner: str
    action: OutputAction
    find: Find
    detectors: Detectors | None  # if set, it reads all values joined, if its prefilter hits


class _ValueHit(NamedTuple):
    reader: _ContentScanner
    value: int  # index; 0 in plain text
    start: int  # bytes, in that value
    end: int
    kind: str


class Scanners:
    """Scanners that are compiled once, for many scans."""

    def __init__(self, specs: Iterable[ScannerSpec], own: Mapping[str, OwnScanner] = {}) -> None:
        """`own` has the functions that the scanner `python` may name."""
        every = list(specs)
        self._outside = [
            scanner for scanner in every if scanner.scanner in (ScannerKind.SIZE, ScannerKind.CONTENT_TYPE)
        ]
        self._readers = [_reader(scanner, own) for scanner in every if scanner not in self._outside]

    def scan(self, content: bytes, content_type: str = "application/json") -> Scan:
        """Scan a result. A part that cannot be scanned is a finding too, which quarantines the result."""
        noted = list(_whole(self._outside, content, content_type))
        if len(content) > MOST_BYTES and self._readers:
            noted.append(_unread("too_large", f"only the first {MOST_BYTES:,} of {len(content):,} bytes were scanned"))
            content = content[:MOST_BYTES]
        if not (readers := self._candidates(content)):
            return _decided(noted) if noted else CLEAN
        try:
            document = documents.read(content)
        except documents.TooManyValues:
            noted.append(_unread("too_large", f"more than {documents.MOST_VALUES:,} values; scanned as plain text"))
            document = documents.plain_text(content)
        hits = _hits(readers, document)
        if len(hits) > MOST_FINDINGS:
            noted.append(_unread("too_many", f"more than {MOST_FINDINGS:,} findings; the rest was not scanned"))
        noted += zip(_findings(document, hits[:MOST_FINDINGS]), (hit.reader.action for hit in hits), strict=False)
        return self._redact(document, hits, _decided(noted))

    def _candidates(self, content: bytes) -> list[_ContentScanner]:
        """Return the readers that may find something; most content is clean, and this takes one pass for each."""
        texts = [content, documents.unescaped(content)] if b"\\" in content else [content]
        return [
            reader
            for reader in self._readers
            if reader.detectors is None or any(reader.detectors.prefilter(text) for text in texts)
        ]

    def _redact(self, document: documents.ScannedDocument, hits: list[_ValueHit], scan: Scan) -> Scan:
        """Redact until another scan finds nothing: what is left may look like another secret."""
        if scan.decision is not OutputAction.REDACT:
            return scan
        for _ in range(ROUNDS):
            document = documents.read(document.replace(_redacted(document, hits, OutputAction.REDACT)))
            hits = _hits(self._candidates(document.raw), document)
            worst = max((RANK[hit.reader.action] for hit in hits), default=0)
            if worst < RANK[OutputAction.REDACT]:
                return Scan(scan.findings, scan.decision, document.raw)
            if worst > RANK[OutputAction.REDACT]:
                break
        note = "redaction does not remove every finding"
        return _decided(
            [(finding, OutputAction.REDACT) for finding in scan.findings] + [_unread("not_redactable", note)]
        )


def _hits(readers: list[_ContentScanner], document: documents.ScannedDocument) -> list[_ValueHit]:
    """Return the hits in order of the values, one more than may be reported if there are too many."""
    return sorted(islice(_each_hit(readers, document), MOST_FINDINGS + 1), key=lambda hit: hit[1:])


def _each_hit(readers: list[_ContentScanner], document: documents.ScannedDocument) -> Iterator[_ValueHit]:
    for reader in readers:
        if reader.detectors is None:
            for index, value in enumerate(document.values):
                for start, end, kind in reader.find(value.text):
                    yield _ValueHit(reader, index, start, end, kind)
            continue
        for start, end, kind in reader.find(document.joined):
            if (span := document.at(start, end)) is not None:
                yield _ValueHit(reader, *span, kind)


def _decided(noted: Sequence[Noted]) -> Scan:
    return Scan(
        tuple(finding for finding, _ in noted),
        max((action for _, action in noted), key=RANK.__getitem__, default=_ALLOW),
    )


def _unread(kind: str, note: str) -> Noted:
    return Finding("limits", kind, "", 0, 0, note), OutputAction.QUARANTINE


def _redacted(
    document: documents.ScannedDocument, hits: Iterable[_ValueHit], only: OutputAction | None = None
) -> dict[int, bytes]:
    """Return the new text of each value with hits."""
    spans: dict[int, list[tuple[int, int, bytes]]] = {}
    for hit in hits:
        if only is None or hit.reader.action is only:
            spans.setdefault(hit.value, []).append((hit.start, hit.end, marker(hit.kind)))
    return {index: documents.replaced(document.values[index].text, some) for index, some in spans.items()}


def _findings(document: documents.ScannedDocument, hits: list[_ValueHit]) -> Iterator[Finding]:
    """Yield what may be shown: a key with a hit appears redacted in every path."""
    names = _redacted(document, (hit for hit in hits if document.values[hit.value].is_key))
    value, at, characters = -1, 0, 0  # counted onwards from hit to hit, so that the whole takes linear time
    for hit in hits:
        text = document.values[hit.value].text
        if hit.value != value:
            value, at, characters = hit.value, 0, 0
        characters += _length(text[at : hit.start])
        at = hit.start
        size = _length(text[hit.start : hit.end])
        path = document.path(hit.value, names)
        note = "1 character" if size == 1 else f"{size} characters"
        yield Finding(hit.reader.scanner, hit.kind, path, characters, characters + size, note)


def _length(text: bytes) -> int:
    return len(text.decode("utf-8", "surrogatepass"))


def _whole(specs: list[ScannerSpec], content: bytes, content_type: str) -> Iterator[Noted]:
    """Yield findings about the size and the type."""
    kind = content_type.partition(";")[0].strip().lower()[:LONGEST_TYPE]
    for spec in specs:
        note = ""
        if spec.scanner is ScannerKind.SIZE:
            assert isinstance(spec.max, int)
            note = f"{len(content):,} bytes; at most {spec.max:,}" if len(content) > spec.max else ""
        elif any(fnmatchcase(kind, glob.lower()) for glob in spec.deny):
            note = "denied"
        elif spec.allow and not any(fnmatchcase(kind, glob.lower()) for glob in spec.allow):
            note = "not among the allowed types"
        if note:
            yield Finding(str(spec.scanner), str(spec.scanner), "", 0, 0, note), OutputAction(spec.action)


def _reader(spec: ScannerSpec, own: Mapping[str, OwnScanner]) -> _ContentScanner:
    action, name = OutputAction(spec.action), str(spec.scanner)
    detectors: Detectors | None = None
    if spec.scanner is ScannerKind.PYTHON:
        return _ContentScanner(name, action, _own(str(spec.name), own), None)
    if spec.scanner is ScannerKind.REGEX:
        return _ContentScanner(name, action, _regex([compile_re2(pattern) for pattern in spec.patterns]), None)
    if spec.scanner is ScannerKind.SECRETS:
        detectors = secrets(spec.entropy)
    elif spec.scanner is ScannerKind.PERSONAL_DATA:
        detectors = personal_data(tuple(spec.kinds))
    elif spec.scanner is ScannerKind.PROMPT_INJECTION:
        detectors = prompt_injection()
    else:
        detectors = keywords(tuple(spec.words), spec.ignore_case)
    return _ContentScanner(name, action, detectors.find, detectors)


def keywords(words: tuple[str, ...], ignore_case: bool) -> Detectors:
    """Return a detector of whole words; the edge of a word is known only next to ASCII letters and digits."""
    edges = [(r"\b" if _is_ascii(word[0]) else "", r"\b" if _is_ascii(word[-1]) else "") for word in words]
    every = "|".join(f"{left}{_quoted(word)}{right}" for word, (left, right) in zip(words, edges, strict=True))
    found = Detectors([Detector("keyword", f"(?i){every}" if ignore_case else every)])
    try:
        _ = found.prefilter
    except ValueError as error:
        raise BadUse("words", f"too many to look for at once ({error})") from error
    return found


def _is_ascii(letter: str) -> bool:
    return letter.isascii() and (letter.isalnum() or letter == "_")


def _quoted(word: str) -> str:
    text: str = load_re2().escape(word)
    return text


def _regex(patterns: list[Any]) -> Find:
    def find(data: bytes) -> Iterator[Hit]:
        for pattern in patterns:
            # Empty matches are no hits, and may be very many.
            for match in islice(pattern.finditer(data), MOST_FINDINGS + 1):
                if match.end() > match.start():
                    yield match.start(), match.end(), "regex"

    return find


def _own(name: str, own: Mapping[str, OwnScanner]) -> Find:
    if name not in own:
        rule = "the name of a function declared with @app.scanner" + did_you_mean(name, own)
        raise BadValue("name", name, rule)
    function = own[name]

    def find(data: bytes) -> Iterator[Hit]:
        text = data.decode("utf-8", "surrogatepass")
        answer = function(text)
        for answered in [(0, len(text), name)] if answer is True else answer or ():
            match answered:
                case (int(start), int(end), str(kind)) if 0 <= start <= end <= len(text) and KIND.fullmatch(kind):
                    yield len(_bytes(text[:start])), len(_bytes(text[:end])), kind
                case _:
                    raise BadUse(name, "a scanner returns true, false, or a list of (start, end, kind) within the text")

    return find


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
