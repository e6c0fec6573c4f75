"""Forms of addresses, ports, volumes and URLs of children."""

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from interlock.model.error import BadValue

ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.]+(?:%\w+)?)\]|([\w.-]+)):([0-9]{1,5})", re.ASCII)
PORT = re.compile(r"(?:([0-9.]+|\[[0-9A-Fa-f:.]+\]):)?([0-9]{1,5}):([0-9]{1,5})(?:/(tcp|udp))?")
MOST_DESCRIPTORS = 200  # fewer than the system passes between processes at once
VOLUME = r"(/[^:\0]*|[A-Za-z0-9][A-Za-z0-9_.-]+):/[^:\0]*(:[A-Za-z,]+)?"
"""an engine takes what does not begin with a slash for the name of a volume that it keeps itself"""


def check_descriptors(field: str, numbers: object) -> tuple[int, ...]:
    if isinstance(numbers, (str, bytes)) or not isinstance(numbers, Sequence) or len(numbers) > MOST_DESCRIPTORS:
        raise BadValue(field, numbers, f"a list of up to {MOST_DESCRIPTORS} descriptors")
    for number in numbers:
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            raise BadValue(field, number, "a descriptor")
    return tuple(numbers)


def parse_port(port: str) -> tuple[str, int, int, str] | None:
    """Return the address outside (empty: every one), port outside, port inside and protocol; None if it is no port."""
    match = PORT.fullmatch(port)
    if match is None or not 0 < int(match[2]) < 65536 or not 0 < int(match[3]) < 65536:
        return None
    return (match[1] or "").strip("[]"), int(match[2]), int(match[3]), match[4] or "tcp"


def is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        good = parts.scheme == "http" and bool(parts.hostname) and parts.port != 0 and text.isascii()
    except ValueError:
        return False
    return good and not any(ord(one) <= 32 or ord(one) == 127 for one in text)


def parse_address(address: str) -> tuple[str, int] | None:
    """Return host and port, None if it is no address; an IPv6 address stands in brackets."""
    match = ADDRESS.fullmatch(address)
    if match is None or not 0 < int(match[3]) < 65536:
        return None
    return match[1] or match[2], int(match[3])
