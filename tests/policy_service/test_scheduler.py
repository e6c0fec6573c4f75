"""A scheduler under a policy service: verdicts count, and what becomes of runs while there are none."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import interlock as il
from tests.docs.blocks import free_address
from tests.helpers.places import folder
from tests.helpers.processes import wait_until
from tests.helpers.server import Command, Server, interlock

__all__ = ["folder"]

POLICY = "kind: Policy\nid: test\nrules:\n  - {{id: some, match: {{topics: [{}]}}, decision: allow}}\n"


class Service(Command):
    """A policy service that allows some topics."""

    def __init__(self, folder: Path, *topics: str) -> None:
        self.address = free_address()
        self.file = folder / "policy.yaml"
        self.allow(*topics)
        arguments = ("interlock.cli", "policy", "serve", str(self.file), "--listen", self.address)
        super().__init__(folder, *arguments, name="policy")

    def allow(self, *topics: str) -> None:
        self.file.write_text(POLICY.format(", ".join(topics)))

    def serve(self) -> None:
        before = len(self.said) if self.output.exists() else 0
        self.begin()
        wait_until(lambda: " on " in self.said[before:], "the policy is served")


@contextmanager
def under(service: Service, mode: str = "closed") -> Iterator[tuple[Server, il.Client]]:
    options = ("--http", "local", "--policy-service", service.address, "--policy-check-fail-mode", mode)
    with Server(service.folder, *options) as server, il.Client(f"unix:{server.http_socket}") as client:
        try:
            yield server, client
        finally:
            service.kill()


@pytest.mark.behaviour("POL-9", "POL-11")
def test_a_service_decides_and_without_it_runs_wait(folder: Path) -> None:
    service = Service(folder, "echo")
    service.serve()
    with under(service) as (_, client):
        assert client.submit("echo", {"value": 1}).result() == 1
        denied = client.submit("add", {"left": 1})
        denied.wait()
        assert denied.state() == "denied"
        assert denied.info().reason.endswith(": no rule matches")
        service.kill()
        waiting = client.submit("echo", {"value": 2})
        wait_until(lambda: "cannot be reached" in str(waiting.explain()), "there is no verdict")
        assert waiting.state() == "pending"
        service.serve()
        assert waiting.result() == 2


@pytest.mark.behaviour("POL-11")
def test_a_service_that_is_away_lets_runs_through_if_it_may(folder: Path) -> None:
    service = Service(folder)
    with under(service, "open") as (server, client):
        run = client.submit("echo", {"value": 1})
        assert run.result() == 1
        assert "safety_bypassed" in str(run.info())
    assert "starts without a verdict" in server.said


def test_a_service_on_another_machine_needs_tls(folder: Path) -> None:
    ended = interlock(folder, "up", "--policy-service", "192.0.2.1:50051", "--http", "off")
    assert "policy_service: 192.0.2.1:50051 is another machine" in ended.stderr
    assert ended.returncode == 2
