"""Every page for people who hear it, use keys, or see little contrast: axe finds nothing under the real policy."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.browser import Window
from tests.dashboard.test_dashboard import PAGES, SIZES, newest
from tests.helpers.server import ROOT, Server

DASHBOARD = ROOT / "dashboard"


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source of axe-core, which is a tool of development and no part of the bundle."""
    folder = DASHBOARD
    if not (folder / "node_modules" / "axe-core").exists():
        if shutil.which("npm") is None:
            pytest.skip("npm is not installed")
        folder = tmp_path_factory.mktemp("axe")
        for name in (".npmrc", "package.json", "package-lock.json"):
            shutil.copy(DASHBOARD / name, folder)
        subprocess.run(["npm", "ci", "--ignore-scripts"], cwd=folder, check=True, capture_output=True)
    return (Path(folder) / "node_modules" / "axe-core" / "axe.min.js").read_text()


def violations(page: Any, axe: str) -> list[str]:
    page.evaluate(axe)
    found = page.evaluate("axe.run({resultTypes: ['violations']})")
    return [f"{one['id']}: {one['help']}: {one['nodes'][0]['target']}" for one in found["violations"]]


@pytest.mark.parametrize(("size", "theme"), [("desk", "light"), ("phone", "dark")])
def test_axe_finds_nothing(browser: Any, full: Server, axe: str, size: str, theme: str) -> None:
    run_id = newest(full, "import.csv")
    paths = [*PAGES, f"runs/{run_id}", f"runs/{run_id}?tab=events", f"runs/{run_id}?tab=payload", "nowhere"]
    found = {}
    with Window(browser, full.url, SIZES[size], theme) as window:
        for path in paths:
            page = window.open(path)
            if faults := violations(page, axe):
                found[path] = faults
            width = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert width <= 0, f"{path} is {width} pixels wider than the window"
        page = window.open("jobs/backup.nightly")
        page.get_by_role("button", name="Backfill…").click()
        if faults := violations(page, axe):
            found["dialog"] = faults
    assert found == {}
