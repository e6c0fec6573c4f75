"""Signing in, and what each role sees and may do, in a real browser."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.conftest import guard
from tests.api.tokens import TOKENS, as_
from tests.dashboard.browser import Window
from tests.dashboard.office import office, submit
from tests.helpers.places import clean_folder
from tests.helpers.server import Server

pytestmark = pytest.mark.behaviour("SEC-2")


@pytest.fixture(scope="module")
def guarded() -> Iterator[Server]:
    """An office that asks for tokens, with runs of the tenant red."""
    with clean_folder() as place:
        guard(place)
        server = office(place)
        server.extra = {"BOSS_TOKEN": TOKENS["boss"].text}
        with server:
            submit(as_(server, "clerk"), "mail.send", 1, delay="1h")
            yield server


def signed_in(browser: Any, server: Server, name: str, path: str = "") -> Window:
    window = Window(browser, server.url)
    page = window.page
    page.goto(f"{server.url}/ui/{path}")
    page.get_by_label("Token").fill(TOKENS[name].text)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="Sign out").wait_for()
    page.wait_for_selector("main:not(:has(.bones))")
    return window


def newest(server: Server) -> str:
    return str(as_(server, "boss").get("/api/v1/runs?job=mail.send&limit=1").json["runs"][0]["id"])


@pytest.mark.behaviour("SEC-3")
def test_a_token_opens_a_session_that_the_page_keeps_without_the_token(browser: Any, guarded: Server) -> None:
    window = Window(browser, guarded.url)
    page = window.page
    page.goto(f"{guarded.url}/ui/runs")
    page.get_by_label("Token").fill("a-token-that-nobody-has")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("token: unknown").wait_for()
    page.get_by_label("Token").fill(TOKENS["clerk"].text)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("clerk (operator)").wait_for()
    page.get_by_role("link", name="mail.send").wait_for()
    page.reload()
    page.get_by_role("link", name="mail.send").wait_for()
    kept = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
    assert TOKENS["clerk"].text not in kept
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("Token").wait_for()
    assert page.evaluate("localStorage.length") == 0
    window.close()
    assert {fault.partition("status of ")[2] or fault for fault in window.faults} == {"401 (Unauthorized)"}


def test_a_viewer_sees_and_is_told_why_they_may_not_act(browser: Any, guarded: Server) -> None:
    window = signed_in(browser, guarded, "guest", f"runs/{newest(guarded)}")
    page = window.page
    button = page.get_by_role("button", name="Cancel run")
    button.wait_for()
    assert button.get_attribute("aria-disabled") == "true"
    assert "viewer" in button.get_attribute("title")
    window.close()


@pytest.mark.behaviour("SEC-5")
def test_a_token_of_one_tenant_sees_only_that_tenant(browser: Any, guarded: Server) -> None:
    run_id = newest(guarded)
    window = signed_in(browser, guarded, "stranger", f"runs/{run_id}")
    window.page.get_by_text("There is no run").wait_for()
    window.open("runs").get_by_text("No runs yet.").wait_for()
    window.open("").get_by_text("Nothing needs you.").wait_for()
    window.open("lanes").get_by_role("alert").wait_for()
    assert "tenant" in window.page.get_by_role("alert").inner_text()
    window.close()


@pytest.mark.behaviour("POL-8")
def test_a_second_person_approves_what_they_saw(browser: Any, guarded: Server) -> None:
    chief = as_(guarded, "chief")
    run_id = chief.post("/api/v1/runs", {"job": "billing.refund", "payload": {"invoice": 17, "cents": 9900}}).json["id"]
    own = signed_in(browser, guarded, "chief", f"approvals/{run_id}")
    own.page.get_by_text("another approver must answer").wait_for()
    own.close()
    window = signed_in(browser, guarded, "judge")
    page = window.page
    page.get_by_role("link", name="Review").click()
    page.get_by_text("9900").wait_for()
    page.get_by_text("asked by chief").wait_for()
    page.get_by_placeholder("reason").fill("seen the invoice")
    page.get_by_role("button", name="Approve", exact=True).click()
    page.get_by_text("Approved by judge").wait_for()
    window.close()
    found = chief.get(f"/api/v1/runs/{run_id}?wait=25s").json
    assert found["state"] == "succeeded", found
    assert found["result"] == "invoice 17: 9900 cents returned"
