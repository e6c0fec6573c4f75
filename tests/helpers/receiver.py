"""A system that hooks and webhooks are sent to: a real HTTP server in a thread of the test. It reads each request with
the libraries of CloudEvents and of Standard Webhooks, as other people's receivers do."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from cloudevents.core.exceptions import BaseCloudEventException
from standardwebhooks import Webhook, WebhookVerificationError


class Receiver:
    """Answers each path with its status, 200 by default. A path without a status is held until `release`.
    With a secret, every request must be signed."""

    def __init__(self, secret: str | None = None) -> None:
        self.faults: list[str] = []  # of requests that a library does not accept
        self.statuses: dict[str, int | None] = {}
        self.got: list[tuple[str, str, dict[str, Any]]] = []  # path, id and event of each request
        self.accepted: set[str] = set()  # subjects of the requests that were accepted
        self._released = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.check(HTTPMessage(dict(self.headers), body), secret)
                event = json.loads(body)
                receiver.got.append((self.path, self.headers["webhook-id"], event))
                status = receiver.statuses.get(self.path, 200)
                if status is None:
                    receiver._released.wait(60)
                    status = 200
                if status < 300:
                    receiver.accepted.add(event["subject"])
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *arguments: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def check(self, message: HTTPMessage, secret: str | None) -> None:
        try:
            event = from_http_event(message)
            assert event.get_id() == message.headers["webhook-id"]
            if secret is not None:
                Webhook(secret).verify(message.body, dict(message.headers))
        except (AssertionError, BaseCloudEventException, WebhookVerificationError) as error:
            self.faults.append(f"{error!r}: {message}")

    def ids(self, path: str, run_id: str) -> list[str]:
        """Return the ids of the requests about a run, in order."""
        return [id for one, id, event in self.got if (one, event["subject"]) == (path, run_id)]

    def release(self) -> None:
        self._released.set()

    def close(self) -> None:
        self.release()
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def receiving(secret: str | None = None) -> Iterator[Receiver]:
    receiver = Receiver(secret)
    try:
        yield receiver
    finally:
        receiver.close()
    assert receiver.faults == []
