"""Take pictures of the pages: `python -m tests.dashboard.pictures FOLDER [URL]`; docs/dashboard.md shows some."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.dashboard.browser import chromium
from tests.dashboard.office import fill, office

SIZES = {"desk": (1280, 800), "wide": (1920, 1080), "phone": (390, 844)}
THEMES = ("light", "dark")


def take(
    browser: Any, url: str, folder: Path, pages: dict[str, str], sizes: dict[str, tuple[int, int]] = SIZES
) -> None:
    for size, (width, height) in sizes.items():
        for theme in THEMES:
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=theme)
            for name, path in pages.items():
                page.goto(f"{url}/ui/{path}")
                page.wait_for_selector("main:not(:has(.bones))")
                page.wait_for_timeout(400)
                page.screenshot(path=str(folder / f"{name}-{size}-{theme}.png"))
            page.close()


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as place, office(Path(place)) as server, chromium() as browser:
        fill(server.http)
        take(browser, server.url, folder, {"now": ""}, {"desk": SIZES["desk"]})


if __name__ == "__main__":
    main()
