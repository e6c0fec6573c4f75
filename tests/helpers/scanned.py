"""A server with an output policy, and what it makes of results."""

from pathlib import Path
from typing import Any

from interlock.client.http.client import BlockingRunHandle, Client
from interlock.model.state import State
from tests.helpers.http import Http
from tests.helpers.processes import processes_of, wait_until
from tests.helpers.server import Server

APP = "tests.helpers.scanning_jobs:app"
KEYWORD = "Falcon"
POLICY = """\
kind: Policy
id: test
default_decision: allow
output_fail_mode: {mode}
output:
  timeout: {timeout}
  scan: {scan}
  rules:
    - {{id: large, match: {{over: 2000}}, decision: deny, reason: too large}}
  scanners:
    - {{scanner: keywords, words: [{words}]}}
    - {{scanner: secrets, action: redact}}
    - {{scanner: personal_data, kinds: [email], action: allow}}
    - {{scanner: python, name: names, action: redact}}
    - {{scanner: python, name: trap}}
"""


def write_policy(
    place: Path, mode: str = "open", timeout: str = "30s", words: str = KEYWORD, scan: str = "after_success"
) -> str:
    """Write the policy and return the path of its file."""
    path = place / "policy.yaml"
    path.write_text(POLICY.format(mode=mode, timeout=timeout, words=words, scan=scan))
    return str(path)


def scanning(place: Path, *options: str, **policy: str) -> Server:
    http = () if "--http" in options else ("--http", "local")
    return Server(place, write_policy(place, **policy), "--drain", "1s", *http, *options, target=APP)


def client_of(server: Server) -> Client:
    return Client(f"unix:{server.http_socket}")


def say(client: Client, value: Any) -> BlockingRunHandle[Any]:
    return client.submit("say", {"value": value})


def in_state(client: Client, run_id: str, state: State) -> None:
    wait_until(lambda: client.get(run_id).state is state, f"{run_id} is {state}")


def scans_done(client: Client) -> None:
    """Wait until every result of a run that has ended is scanned: the result of a run that comes last is."""
    last = say(client, KEYWORD)
    last.wait(30)
    in_state(client, last.id, State.OUTPUT_QUARANTINED)


def metric(http: Http, name: str, **labels: str) -> float:
    """Return a metric, 0 if it has no sample with these labels."""
    shown = "{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}" if labels else ""
    lines = (line.rpartition(" ") for line in http.get("/metrics").body.decode().splitlines())
    return next((float(value) for key, _, value in lines if key == f"interlock_{name}{shown}"), 0.0)


def inspectors(place: Path) -> list[int]:
    return [one.pid for one in processes_of(place) if "interlock.wiring.inspector:inspect" in one.command]


def record_of(client: Client, run_id: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(run_id).facets.get("output", {})
    return found
