"""The dashboard at `/ui/`: the files of its bundle, under a policy that lets its own scripts run and nothing else.

Nothing here is about anybody's data, so it needs no token.
"""

import hashlib
from collections.abc import Mapping
from functools import cached_property
from importlib.resources import files
from pathlib import PurePath

from interlock.api.compression import ENCODED, VARIES, accepts_gzip, zipped
from interlock.error import MethodNotAllowed, NotFound

PREFIX = "/ui"
INDEX = "index.html"
BASE = b'<base href="./">'  # in index.html; the server writes the way back to `/ui/` into it
SECURITY = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        b"connect-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'; "
        b"require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
KINDS = {".html": b"text/html", ".js": b"text/javascript", ".css": b"text/css", ".svg": b"image/svg+xml"}

Headers = list[tuple[bytes, bytes]]


class PageFile:
    """A file of the bundle, ready to be sent."""

    def __init__(self, name: str, data: bytes) -> None:
        self.data = data
        self.etag = b'"%b"' % hashlib.blake2b(data, digest_size=12).hexdigest().encode()
        self.headers: Headers = [
            (b"content-type", KINDS[PurePath(name).suffix] + b"; charset=utf-8"),
            (b"etag", self.etag),
            (b"cache-control", b"no-cache"),
            VARIES,
            *SECURITY,
        ]

    @cached_property
    def zipped(self) -> bytes:
        return zipped(self.data, 9)

    def answer(self, headers: Mapping[bytes, bytes]) -> tuple[int, Headers, bytes]:
        if self.etag in headers.get(b"if-none-match", b""):
            return 304, self.headers[1:], b""
        if accepts_gzip(headers):
            return 200, [*self.headers, ENCODED], self.zipped
        return 200, self.headers, self.data


class Dashboard:
    def __init__(self, bundle: Mapping[str, bytes]) -> None:
        """`bundle`: the files by name."""
        self._files = {name: PageFile(name, data) for name, data in bundle.items() if name != INDEX}
        self._index = bundle[INDEX]
        self._indexes: dict[int, PageFile] = {}  # by the number of folders between the view and `/ui/`

    def answer(self, method: str, raw_path: bytes, headers: Mapping[bytes, bytes]) -> tuple[int, Headers, bytes]:
        """Return status, headers and body for a path that begins with `/ui`."""
        if method not in ("GET", "HEAD"):
            raise MethodNotAllowed(f"method: {method} is not one for the dashboard")
        path = raw_path.decode("latin-1")
        if path == PREFIX:
            return 308, [(b"location", b"ui/")], b""
        name = path.removeprefix(f"{PREFIX}/")
        if (found := self._files.get(name)) is not None:
            return found.answer(headers)
        if "." in name and "/" not in name and name != INDEX:
            raise NotFound(f"path: {path[:120]!r} does not exist; the dashboard has no such file")
        return self._view(name.count("/")).answer(headers)

    def _view(self, depth: int) -> PageFile:
        depth = min(depth, 8)  # no view is deeper, and a client must not fill the memory
        if depth not in self._indexes:
            base = b'<base href="%b">' % (b"../" * depth or b"./")
            self._indexes[depth] = PageFile(INDEX, self._index.replace(BASE, base))
        return self._indexes[depth]


def built() -> Dashboard:
    """Return the dashboard of the installed package."""
    return Dashboard({file.name: file.read_bytes() for file in files("interlock").joinpath("dashboard").iterdir()})


def wants_page(headers: Mapping[bytes, bytes]) -> bool:
    """Return whether the client is a browser that shows pages."""
    return b"text/html" in headers.get(b"accept", b"")


def is_page(path: str) -> bool:
    return path == PREFIX or path.startswith(f"{PREFIX}/")
