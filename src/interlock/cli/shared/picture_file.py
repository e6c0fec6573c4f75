"""The file of `--svg`."""

import errno
import os

from interlock.error import BadValue
from interlock.error_lines import say


def check_writable(svg: str) -> None:
    """Refuse an impossible path before a long computation; write nothing yet."""
    folder = os.path.dirname(os.path.abspath(svg))
    number = 0
    if os.path.isdir(svg):
        number = errno.EISDIR
    elif not os.path.isdir(folder):
        number = errno.ENOTDIR if os.path.exists(folder) else errno.ENOENT
    elif not os.access(svg if os.path.exists(svg) else folder, os.W_OK):
        number = errno.EACCES
    if number:
        raise BadValue("--svg", svg, f"a file that can be written ({os.strerror(number)})")


def write_picture(svg: str, picture: str) -> None:
    try:
        with open(svg, "w", encoding="utf-8") as file:
            file.write(picture)
    except OSError as error:
        raise BadValue("--svg", svg, f"a file that can be written ({error.strerror})") from None
    say(f"drawn: {svg}")
