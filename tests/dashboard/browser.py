"""Debian's Chromium, driven by Playwright: one for all tests of this process."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

CHROMIUM = "/usr/bin/chromium"
OPTIONS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--force-color-profile=srgb",
]  # fmt: skip


def missing() -> str:
    """Return why no page can be looked at here; empty if one can."""
    return "" if os.path.exists(CHROMIUM) or shutil.which("chromium") else "chromium is not installed"


@contextmanager
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS, headless=True)
        try:
            yield browser
        finally:
            browser.close()


class Window:
    """A window of a browser of its own: whatever a page says on its console, or asks of another host, is kept."""

    def __init__(self, browser: Any, url: str, size: tuple[int, int] = (1280, 800), theme: str = "light") -> None:
        self.url = url
        self.faults: list[str] = []
        width, height = size
        self._context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
        self.page = self._context.new_page()
        self.page.on("console", lambda message: self.faults.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        self.page.on("request", self._asked)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((f"{self.url}/", "blob:")):
            self.faults.append(f"asked another host: {request.url}")

    def open(self, path: str = "") -> Any:
        """Open a page and wait until it shows what it has read."""
        self.page.goto(f"{self.url}/ui/{path}")
        self.page.wait_for_selector("main:not(:has(.bones))")
        return self.page

    def seen(self, text: str) -> bool:
        """Return whether a person sees the text without scrolling."""
        found = self.page.get_by_text(text, exact=False).first
        found.wait_for()
        box, size = found.bounding_box(), self.page.viewport_size
        assert box is not None
        return bool(box["y"] >= 0 and box["y"] + box["height"] <= size["height"] and box["x"] + 1 >= 0)

    def close(self) -> None:
        self._context.close()

    def __enter__(self) -> "Window":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()
        assert kind is not None or not self.faults, self.faults
