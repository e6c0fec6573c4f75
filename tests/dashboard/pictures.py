"""Take the pictures of docs/dashboard.md: `python -m tests.dashboard.pictures docs/dashboard`."""

import sys
from pathlib import Path
from typing import Any

from tests.dashboard.browser import Window, chromium
from tests.dashboard.office import fill, office
from tests.helpers.places import clean_folder

PICTURES = {
    "now": ("", (1280, 720), "light"),
    "now-dark": ("", (1280, 720), "dark"),
    "now-phone": ("", (390, 844), "light"),
    "run": ("runs/{failed}", (1280, 560), "light"),
}
"""name of the picture → page, size of the window, theme"""


def take(browser: Any, url: str, folder: Path, failed: str) -> None:
    for name, (path, (width, height), theme) in PICTURES.items():
        with Window(browser, url, (width, height), theme) as window:
            page = window.open(path.format(failed=failed))
            page.wait_for_selector(".lines, .needs")
            page.wait_for_selector(".connection.good")
            page.screenshot(path=str(folder / f"{name}.png"))


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with clean_folder() as place, office(place) as server, chromium() as browser:
        fill(server.http, 1204)
        failed = server.http.get("/api/v1/runs?job=import.csv&limit=1").json["runs"][0]["id"]
        take(browser, server.url, folder, failed)


if __name__ == "__main__":
    main()
