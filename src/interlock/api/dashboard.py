"""The dashboard's files: the built bundle, served below `/ui/`.

The bundle is a flat folder. Every other path below `/ui/` is a view of the page itself, so it gets `index.html`, whose
`<base>` leads back to `/ui/`. All links are relative, so that a proxy may serve everything below a path of its own.
Nothing here is about anybody's data, so it needs no token.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import PurePath
from typing import Any

from interlock.api.compression import ENCODED, VARIES, accepts_gzip, zipped
from interlock.error import MethodNotAllowed, NotFound

PREFIX = "/ui"
INDEX = "index.html"
BASE = b'<base href="./">'  # in index.html; the server writes the way back to `/ui/` into it
MISSING = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><base href="./"><title>Interlock</title></head>
<body><h1>The dashboard is not built</h1><p>Run <code>make dashboard</code> in a clone of Interlock, or install the
wheel, which has it. The API is at <a href="../docs">docs</a>.</p></body></html>
"""
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
FOREVER = (b"cache-control", b"public, max-age=31536000, immutable")
ASK_AGAIN = (b"cache-control", b"no-cache")
_HASHED = re.compile(r"-[A-Z0-9]{8}\.\w+")  # esbuild's `[name]-[hash]`
TEXT = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
OTHER = {".png": "image/png", ".ico": "image/x-icon", ".woff2": "font/woff2"}

Headers = list[tuple[bytes, bytes]]


class PageFile:
    """A file of the bundle, ready to be sent."""

    def __init__(self, name: str, data: bytes) -> None:
        ending = PurePath(name).suffix
        text = TEXT.get(ending)
        kind = f"{text}; charset=utf-8" if text else OTHER.get(ending, "application/octet-stream")
        self.data = data
        self.zipped = zipped(data, 9) if text else None
        self.etag = b'"%b"' % hashlib.blake2b(data, digest_size=12).hexdigest().encode()
        self.headers: Headers = [
            (b"content-type", kind.encode()),
            (b"etag", self.etag),
            FOREVER if _HASHED.search(name) else ASK_AGAIN,
            VARIES,
            *SECURITY,
        ]

    def answer(self, headers: Mapping[bytes, bytes], status: int = 200) -> tuple[int, Headers, bytes]:
        if status == 200 and self.etag in headers.get(b"if-none-match", b""):
            return 304, self.headers[1:], b""
        if self.zipped is not None and accepts_gzip(headers):
            return status, [*self.headers, ENCODED], self.zipped
        return status, self.headers, self.data


class Dashboard:
    def __init__(self, bundle: Mapping[str, bytes]) -> None:
        """`bundle`: the files by name."""
        self._files = {name: PageFile(name, data) for name, data in bundle.items() if name != INDEX}
        self._index = bundle.get(INDEX)
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
        return self._view(name.count("/")).answer(headers, 503 if self._index is None else 200)

    def _view(self, depth: int) -> PageFile:
        depth = min(depth, 8)  # no view is deeper, and a client must not fill the memory
        if depth not in self._indexes:
            base = b'<base href="%b">' % (b"../" * depth or b"./")
            data = MISSING if self._index is None else self._index
            self._indexes[depth] = PageFile(INDEX, data.replace(BASE, base))
        return self._indexes[depth]


def built() -> Dashboard:
    """Return the dashboard of the installed package."""
    folder = files("interlock").joinpath("dashboard")
    names: Iterable[Any] = folder.iterdir() if folder.is_dir() else ()
    return Dashboard({one.name: one.read_bytes() for one in names if one.is_file()})


def wants_page(headers: Mapping[bytes, bytes]) -> bool:
    """Return whether the client is a browser that shows pages."""
    return b"text/html" in headers.get(b"accept", b"")


def is_page(path: str) -> bool:
    return path == PREFIX or path.startswith(f"{PREFIX}/")
