"""The dashboard while its server is away: killed, and then behind a proxy that answers in its place."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.dashboard.browser import Window
from tests.dashboard.office import office, submit
from tests.helpers.places import clean_folder


class BadGateway(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"<h1>502 Bad Gateway</h1>"
        self.send_response(502)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def proxy(port: int) -> Iterator[None]:
    """A proxy whose server is gone."""
    with HTTPServer(("127.0.0.1", port), BadGateway) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.behaviour("OBS-4")
def test_a_page_says_since_when_the_server_is_away_and_goes_on_by_itself(browser: Any) -> None:
    port = free_port()
    with clean_folder() as place, office(place, "--http", f"127.0.0.1:{port}") as server:
        run_id = submit(server.http, "mail.send", delay="1h")[0]
        window = Window(browser, server.url)
        page = window.open(f"runs/{run_id}")
        cancel = page.get_by_role("button", name="Cancel run")
        expect(cancel).to_be_enabled()
        server.kill()
        page.get_by_text("No connection since").wait_for()
        expect(cancel).to_be_disabled()
        assert "away" in cancel.get_attribute("title")
        with proxy(port):
            page.get_by_role("button", name="now", exact=True).click()
            page.get_by_text("No connection since").wait_for()
        server.start()
        expect(page.get_by_text("No connection since")).to_have_count(0)
        expect(cancel).to_be_enabled()
        server.http.post(f"/api/v1/runs/{run_id}/cancel", {"reason": "told after the outage"})
        page.get_by_text("told after the outage").first.wait_for()
        window.close()
        server.wait_for_strays()
