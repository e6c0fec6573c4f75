"""The dashboard in a real browser, as a person sees and uses it."""

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.dashboard.browser import Window
from tests.helpers.server import Server

SIZES = {"desk": (1280, 800), "phone": (390, 844)}
SITUATIONS = {
    "an approval waits": "1 run waits for an approval",
    "a job keeps failing": "6 with one error of",
    "a lane was paused and forgotten": "Lane batch is paused",
    "a service is in backoff": "Service mailer ended 1 time, next try in",
}


@pytest.mark.behaviour("OBS-4")
@pytest.mark.parametrize("size", SIZES)
def test_within_ten_seconds_a_person_knows_what_is_wrong(browser: Any, full: Server, size: str) -> None:
    with Window(browser, full.url, SIZES[size]) as window:
        window.open().get_by_text("Needs you").wait_for()
        for situation, sentence in SITUATIONS.items():
            assert window.seen(sentence), situation


def newest(server: Server, job: str) -> str:
    return str(server.http.get(f"/api/v1/runs?job={job}&limit=1").json["runs"][0]["id"])


def test_a_run_says_why_it_failed_and_shows_its_log(window: Window, full: Server) -> None:
    run_id = newest(full, "import.csv")
    page = window.open(f"runs/{run_id}")
    assert "ValueError: line 98 has 12 columns, expected 9" in page.locator(".why").inner_text()
    page.get_by_text("opening the file").first.wait_for()
    page.get_by_role("tab", name="Error").click()
    page.get_by_text("Traceback").first.wait_for()
    page.get_by_role("tab", name="Payload").click()
    page.get_by_text("98", exact=True).wait_for()
    page.get_by_role("tab", name="Events").click()
    assert page.locator("tbody tr").count() == 12


def test_hostile_text_is_shown_and_obeyed_by_nobody(window: Window, full: Server) -> None:
    page = window.open(f"runs/{newest(full, 'hostile.text')}")
    page.get_by_text("<img src=x onerror=").first.wait_for()
    log = page.get_by_role("log").inner_text()
    assert "user⟨U+202E⟩exe.txt" in log
    assert "⟨ESC⟩[31mred" in log
    assert page.locator("main img, main script").count() == 0
    assert page.title() == "Runs · Interlock"


def test_filters_are_in_the_address_and_choose_the_runs(window: Window) -> None:
    page = window.open("runs?job=import.csv&state=failed")
    assert page.locator("tbody tr").count() == 6
    page.get_by_label("job").fill("report.build")
    page.get_by_label("job").press("Enter")
    page.wait_for_url("**/ui/runs?state=failed&job=report.build")
    page.get_by_text("No run matches").wait_for()
    page.go_back()


def test_keys_lead_through_the_pages(window: Window) -> None:
    page = window.open()
    page.keyboard.press("g")
    page.keyboard.press("r")
    page.wait_for_url("**/ui/runs")
    page.wait_for_selector("tbody tr")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    page.wait_for_selector(".why .sentence")


def test_a_run_is_cancelled_after_saying_what_will_happen(window: Window, full: Server) -> None:
    run_id = full.http.post("/api/v1/runs", {"job": "mail.send", "delay": "1h"}).json["id"]
    page = window.open(f"runs/{run_id}")
    page.get_by_role("button", name="Cancel run").click()
    page.get_by_label("Reason").fill("not needed")
    page.get_by_role("dialog").get_by_role("button", name="Cancel run").click()
    page.get_by_text("The run is cancelled.").wait_for()
    page.locator("h1", has_text="cancelled").wait_for()
    assert full.http.get(f"/api/v1/runs/{run_id}").json["reason"] == "not needed"


def test_a_new_run_shows_without_asking(window: Window, full: Server) -> None:
    page = window.open("runs?job=mail.send&state=succeeded")
    before = page.locator("tbody tr").count()
    full.http.post("/api/v1/runs?wait=25s", {"job": "mail.send"})
    expect(page.locator("tbody tr")).to_have_count(before + 1)


@pytest.mark.parametrize("path", ["nowhere", "runs/0000", "runs?state=none&since=x", "runs/%E0%A4%A", "runs/a/b/c"])
def test_a_bad_address_gets_a_sentence_and_a_way_on(browser: Any, full: Server, path: str) -> None:
    window = Window(browser, full.url)
    page = window.open(path)
    text = page.locator("main").inner_text()
    assert len(text) > 20
    assert page.locator("main a, main button").count()
    assert not [fault for fault in window.faults if not fault.startswith("error: Failed to load resource")], (
        window.faults
    )
    window.page.context.close()
