"""The dashboard in a real browser, as a person sees and uses it."""

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.dashboard.browser import Window
from tests.dashboard.office import ended, submit
from tests.helpers.server import Server

SIZES = {"desk": (1280, 800), "phone": (390, 844)}
SITUATIONS = {
    "an approval waits": "1 run waits for an approval",
    "a job keeps failing": "dead letters in 24 hours were not replayed",
    "a lane was paused and forgotten": "Lane batch is paused by local",
    "a service is in backoff": "Service mailer is pending, after 1 restart, next try in",
    "no worker for a pool": "is in pool default, which does not take topic train.net",
    "a lane is full": "waits for a slot of lane night: 2 active, 2 allowed",
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
    page.get_by_role("tab", name="Result").click()
    page.get_by_text("1152921504606846977").wait_for()
    assert "user⟨U+202E⟩exe.txt" in page.locator(".json").inner_text()
    page.get_by_role("button", name="Raw").click()
    page.get_by_text('"deep": [').wait_for()
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


PAGES = (
    "", "runs", "jobs", "jobs/import.csv", "jobs/backup.nightly", "timetable", "timetable?for=7d", "approvals",
    "dead-letters", "workers", "workflows", "policy", "lanes", "sessions", "services", "services/mailer",
    "deliveries", "audit", "cluster",
)  # fmt: skip


def test_every_page_shows_what_it_is_about(window: Window) -> None:
    for path in PAGES:
        page = window.open(path)
        assert not page.locator("[role=alert]").count(), (path, page.locator("main").inner_text())
        assert page.locator("h1").count() == 1, path
        assert page.locator("main table, main .empty, main .plan, main .needs, main .lines").count(), path


def test_every_link_of_the_navigation_leads_to_a_page(window: Window) -> None:
    links = window.open().locator("header nav a")
    paths = {links.nth(place).get_attribute("href") for place in range(links.count())}
    assert paths == {"./", *(path for path in PAGES if path and "/" not in path and "?" not in path)}


def test_a_dead_letter_is_replayed_with_other_arguments(window: Window, full: Server) -> None:
    letter = full.http.get("/api/v1/dead-letters?job=import.csv&replayed=false").json["letters"][0]
    page = window.open(f"dead-letters/{letter['id']}")
    page.get_by_text("Traceback").first.wait_for()
    page.get_by_role("button", name="Replay…").click()
    page.get_by_role("dialog").get_by_label("Arguments").fill('{"line": 123}')
    page.get_by_role("dialog").get_by_role("button", name="Replay").click()
    page.get_by_text("A new run was created.").wait_for()
    again = full.http.get(f"/api/v1/dead-letters/{letter['id']}").json["replayed_as"]
    assert full.http.get(f"/api/v1/runs/{again}?wait=25s").json["payload"] == {"line": 123}


@pytest.mark.behaviour("OUT-5")
def test_a_withheld_result_is_handed_out_with_a_reason(window: Window, full: Server) -> None:
    (run_id,) = submit(full.http, "mail.private", payload={"to": "withheld@example.org"})
    ended(full.http, run_id)
    page = window.open(f"runs/{run_id}")
    page.get_by_role("tab", name="Result").click()
    page.get_by_text("The result is withheld by the output policy.").wait_for()
    assert '"withheld@' not in page.locator("#tab").inner_text()
    page.get_by_role("button", name="Hand out…").click()
    page.get_by_role("dialog").get_by_role("button", name="Hand out").click()
    page.get_by_text("Reason: needed.").wait_for()
    page.get_by_role("dialog").get_by_label("Reason").fill("the address is public")
    page.get_by_role("dialog").get_by_role("button", name="Hand out").click()
    page.get_by_text("The result was handed out.").wait_for()
    page.locator("#tab").get_by_text("withheld@example.org").wait_for()


def test_arguments_that_are_not_json_are_refused_before_they_are_sent(window: Window) -> None:
    page = window.open("jobs/mail.send")
    page.get_by_role("button", name="Trigger…").click()
    page.get_by_role("dialog").get_by_label("Arguments").fill("{to: ann}")
    page.get_by_role("dialog").get_by_role("button", name="Trigger").click()
    page.get_by_text("Arguments: not JSON").wait_for()


def test_a_schedule_is_paused_and_resumed(window: Window, full: Server) -> None:
    page = window.open("jobs/disk.check")
    for verb, paused in (("Pause", True), ("Resume", False)):
        page.get_by_role("button", name=f"{verb}…").click()
        page.get_by_role("dialog").get_by_role("button", name=verb).click()
        page.get_by_role("button", name="Resume…" if paused else "Pause…").wait_for()
        assert full.http.get("/api/v1/jobs/disk.check").json["paused"] is paused


def test_an_action_offers_its_command(window: Window) -> None:
    page = window.open("lanes")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("row", name="night").get_by_role("button", name="Pause").click()
    page.get_by_role("dialog").get_by_role("button", name="Copy as command").click()
    page.get_by_text("Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == "interlock lane pause night"


def test_nobody_approves_a_run_of_their_own(browser: Any, full: Server) -> None:
    run_id = full.http.post("/api/v1/runs", {"job": "billing.refund", "payload": {"invoice": 1, "cents": 5}}).json["id"]
    window = Window(browser, full.url)
    page = window.open(f"approvals/{run_id}")
    page.get_by_text("a person looks at every refund").wait_for()
    page.get_by_role("button", name="Approve", exact=True).click()
    page.get_by_text("Give a reason").wait_for()
    page.get_by_placeholder("reason").fill("seen the invoice")
    page.get_by_role("button", name="Approve", exact=True).click()
    page.get_by_text("self_approval").wait_for()
    assert full.http.get(f"/api/v1/runs/{run_id}").json["state"] == "approval_required"
    full.http.post(f"/api/v1/runs/{run_id}/cancel", {})
    window.close()
    assert [fault.rpartition("status of ")[2] for fault in window.faults] == ["403 (Forbidden)"]


def test_bulk_cancel_takes_the_runs_of_the_filter_and_no_other(window: Window, full: Server) -> None:
    mine = submit(full.http, "mail.send", 3, delay="1h", labels={"team": "red"})
    other = submit(full.http, "orders.sync", 1, delay="1h")
    page = window.open("runs?job=mail.send&state=prerun")
    page.get_by_text("Act on these").click()
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_text("exactly the runs with job mail.send, state prerun").wait_for()
    page.get_by_role("dialog").get_by_role("button", name="Cancel them").click()
    page.get_by_text("No run matches").wait_for()
    assert {full.http.get(f"/api/v1/runs/{run_id}").json["state"] for run_id in mine} == {"cancelled"}
    assert full.http.get(f"/api/v1/runs/{other[0]}").json["state"] == "prerun"


@pytest.mark.behaviour("WFL-7")
def test_a_workflow_shows_its_graph_with_the_steps_to_come(window: Window, full: Server) -> None:
    run_id = full.http.post("/api/v1/runs", {"job": "orders.ship"}).json["id"]
    page = window.open(f"runs/{run_id}?tab=steps")
    page.get_by_label("agreed: approval required").wait_for()
    page.get_by_label("reserve: succeeded").wait_for()
    page.get_by_label("ship: to come").wait_for()
    assert page.locator(".edge").count() == 3
    assert page.locator(".edge.to-come").count() == 1
    page.get_by_role("link", name="List", exact=True).click()
    expect(page.locator("tbody tr")).to_have_count(4)
    full.http.post(f"/api/v1/runs/{run_id}/cancel", {})


def test_a_text_finds_runs_wherever_it_stands(window: Window) -> None:
    page = window.open("runs")
    page.get_by_label("text").fill("line 98 has")
    page.get_by_label("text").press("Enter")
    page.wait_for_url("**/ui/runs?text=line+98+has")
    expect(page.locator("tbody tr")).to_have_count(1)


def test_a_bulk_action_says_how_many_before_it_acts(window: Window) -> None:
    page = window.open("runs?lane=batch&state=scheduled")
    page.get_by_text("Act on these").click()
    page.get_by_role("button", name="Hold…").click()
    page.get_by_text("40 runs at this moment.").wait_for()
    page.get_by_role("button", name="Back").click()
    assert not page.get_by_role("dialog").count()


def test_the_policy_shows_its_rules_and_their_verdicts(window: Window) -> None:
    row = window.open("policy").get_by_role("row", name="refunds")
    assert "require approval" in row.inner_text()
    assert "a person looks at every refund" in row.inner_text()


def test_a_value_of_a_mebibyte_is_shown_as_far_as_it_is_asked_for(window: Window, full: Server) -> None:
    """A page that drew all of it at once would stand still."""
    text = "<b>" + "a" * 1_000_000
    run_id = submit(full.http, "hostile.text", delay="1h", payload={"text": text})[0]
    page = window.open(f"runs/{run_id}?tab=payload")
    page.get_by_role("button", name="all 1,000,003 characters").click()
    page.wait_for_selector("pre")
    assert len(page.locator("pre").inner_text()) == 1_000_003
    full.http.post(f"/api/v1/runs/{run_id}/cancel", {})


def test_eight_pages_of_one_browser_are_live_together(browser: Any, full: Server) -> None:
    """A browser opens six connections to a host, so a page that is hidden closes its stream."""
    with Window(browser, full.url) as window:
        pages = [window.page, *(window.page.context.new_page() for _ in range(7))]
        for page in pages:
            page.goto(f"{full.url}/ui/runs?job=mail.send")
            page.bring_to_front()
        pages[-1].wait_for_selector("main:not(:has(.bones))")
        run_id = submit(full.http, "mail.send", delay="1h")[0]
        pages[-1].locator(f"a[title='{run_id}']").wait_for()
        full.http.post(f"/api/v1/runs/{run_id}/cancel", {})
