"""Text for people: counts, and control characters escaped."""


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: 1 run, 2,000 runs."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


_DIRECTIONS = {
    number: f"\\u{number:04x}" for number in (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
}
"""marks of writing direction, which can disguise a text"""
_CONTROLS = _DIRECTIONS | {
    number: f"\\x{number:02x}" for number in (*range(32), *range(127, 160)) if chr(number) not in "\n\t"
}


def safe(text: str) -> str:
    """Escape control characters: a terminal would obey those of a job or a submitter."""
    return text.translate(_CONTROLS)


_RARE = _DIRECTIONS | {number: f"\\u{number:04x}" for number in range(127, 160)}
"""control characters that JSON allows unescaped"""


def safe_json(text: str) -> str:
    """Escape control characters in JSON without changing its meaning."""
    return text.translate(_RARE)


def last_line(error: str | None) -> str:
    """Return what a traceback ends with; empty without one."""
    return (error or "").strip().rpartition("\n")[2]
