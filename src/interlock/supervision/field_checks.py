"""Checks of a child's fields: each raises `BadValue`, which names the field and the value."""

import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from interlock.model.error import BadValue, without_value

ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.]+(?:%\w+)?)\]|([\w.-]+)):([0-9]{1,5})", re.ASCII)
PORT = re.compile(r"(?:([0-9.]+|\[[0-9A-Fa-f:.]+\]):)?([0-9]{1,5}):([0-9]{1,5})(?:/(tcp|udp))?")
MOST_DESCRIPTORS = 200
"""fewer than the system passes between processes at once"""
VOLUME = re.compile(r"(/[^:\0]*|[A-Za-z0-9][A-Za-z0-9_.-]+):/[^:\0]*(:[A-Za-z,]+)?")


def check_command(field: str, command: object) -> tuple[str, ...]:
    if isinstance(command, (str, bytes)) or not isinstance(command, Sequence) or not command:
        raise BadValue(field, command, "a list of program and arguments")
    for part in command:
        if not isinstance(part, str) or "\0" in part:
            raise BadValue(field, part, "a text without a NUL character")
    if not command[0]:
        raise BadValue(field, command[0], "the name of a program")
    return tuple(command)


def check_env(field: str, env: object) -> dict[str, str | None]:
    if not isinstance(env, Mapping):
        raise BadValue(field, env, "a mapping of names to texts")
    for name, value in env.items():
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            raise BadValue(field, without_value(name), "the name of a variable")
        if value is not None and (not isinstance(value, str) or "\0" in value):
            raise BadValue(f"{field}.{name}", value, "a text")
    return dict(env)


def check_text(field: str, text: object, expected: str) -> None:
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise BadValue(field, text, expected)


def check_texts(field: str, texts: object) -> tuple[str, ...]:
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        raise BadValue(field, texts, "a list of texts like 'outside:inside'")
    for text in texts:
        if not isinstance(text, str) or ":" not in text:
            raise BadValue(field, text, "a text like 'outside:inside'")
    return tuple(texts)


def check_descriptors(field: str, numbers: object) -> tuple[int, ...]:
    if isinstance(numbers, (str, bytes)) or not isinstance(numbers, Sequence) or len(numbers) > MOST_DESCRIPTORS:
        raise BadValue(field, numbers, f"a list of up to {MOST_DESCRIPTORS} descriptors")
    for number in numbers:
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            raise BadValue(field, number, "a descriptor")
    return tuple(numbers)


def check_part_of_line(field: str, text: object) -> None:
    # A text with a line break would never be found.
    if not isinstance(text, str) or not text.strip("*") or "\n" in text:
        raise BadValue(field, text, "a text on one line with more in it than '*'")


def check_volume(field: str, volume: str) -> None:
    # An engine takes a source without a leading slash for the name of a volume of its own.
    if not VOLUME.fullmatch(volume):
        raise BadValue(field, volume, "a volume like '/srv/data:/data' or '/srv/data:/data:ro'")


def check_port(field: str, port: str) -> tuple[str, int, int, str]:
    """Return address outside (empty for all), port outside, port inside, protocol."""
    match = PORT.fullmatch(port)
    if match is None or not 0 < int(match[2]) < 65536 or not 0 < int(match[3]) < 65536:
        raise BadValue(field, port, "a port like '8080:80', '127.0.0.1:8080:80' or '53:53/udp'")
    return (match[1] or "").strip("[]"), int(match[2]), int(match[3]), match[4] or "tcp"


def check_url(field: str, url: object) -> None:
    text = url if isinstance(url, str) else ""
    try:
        parts = urlsplit(text)
        good = parts.scheme == "http" and bool(parts.hostname) and parts.port != 0 and text.isascii()
    except ValueError:
        good = False
    if not good or any(ord(one) <= 32 or ord(one) == 127 for one in text):
        raise BadValue(field, url, "a URL like http://127.0.0.1:8000/health")


def check_address(field: str, address: object) -> tuple[str, int]:
    """Return host and port; an IPv6 address is in brackets."""
    match = ADDRESS.fullmatch(address) if isinstance(address, str) else None
    if match is None or not 0 < int(match[3]) < 65536:
        raise BadValue(field, address, "an address like 127.0.0.1:5432")
    return match[1] or match[2], int(match[3])
