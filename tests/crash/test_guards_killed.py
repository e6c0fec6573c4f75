"""Guarded runs with real processes and a real receiver: cancel in every state, and kill -9 in the middle."""

import os
import signal
from pathlib import Path

import pytest

import interlock as il
from interlock.model.state import TERMINAL, State
from tests.helpers.processes import processes_of, wait_until
from tests.helpers.receiver import Receiver, receiving
from tests.helpers.server import Server

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SLEEP = "run: {process: [sleep, '987']}\ngrace: 1s\nlane: team\n"


def jobs(receiver: Receiver) -> str:
    url = receiver.url
    return f"""\
kind: Job
id: sleeper
{SLEEP}---
kind: Job
id: hooked
constraints: {{pre_run_hook: {{url: "{url}/before", secret_env: WEBHOOK_SECRET, timeout: 60s}}}}
on_success: {{action: webhook, url: "{url}/done", secret_env: WEBHOOK_SECRET}}
run: {{process: ["true"]}}
---
kind: Job
id: checked
constraints: {{checks: [sleeper]}}
{SLEEP}---
kind: Job
id: single
constraints: {{max_concurrent_runs: 1}}
{SLEEP}---
kind: Job
id: calling
constraints: {{max_concurrent_runs: 1}}
on_constraint_violation: {{action: call, job: sleeper, then: wait}}
{SLEEP}---
kind: Job
id: ending
constraints: {{post_run_hook: {{url: "{url}/after", secret_env: WEBHOOK_SECRET, timeout: 60s}}}}
run: {{process: ["true"]}}
---
kind: Job
id: failing
retry: {{max_retries: 5, initial_delay: 1h, max_delay: 1h}}
run: {{process: ["false"]}}
---
kind: Lane
id: narrow
limit: 1
---
kind: Job
id: crowded
run: {{process: [sleep, '987']}}
grace: 1s
lane: narrow
"""


def serve(folder: Path, receiver: Receiver) -> Server:
    (folder / "jobs.yaml").write_text(jobs(receiver))
    server = Server(folder, str(folder / "jobs.yaml"), "--http", "local", target=None)
    server.extra = {"WEBHOOK_SECRET": SECRET}
    return server


def client_of(server: Server) -> il.Client:
    return il.Client(f"unix:{server.http_socket}")


def in_state(client: il.Client, run_id: str, state: State) -> None:
    wait_until(lambda: client.get(run_id).state == state, f"{run_id} is {state}")


def sleeping(folder: Path) -> list[int]:
    return [one.pid for one in processes_of(folder) if one.command.startswith("sleep ")]


@pytest.mark.behaviour("RUN-10", "RUN-11", "SES-11", "CON-7")
def test_cancel_in_every_state_with_work_behind_it(folder: Path) -> None:
    with receiving(SECRET) as receiver, serve(folder, receiver) as server, client_of(server) as client:
        receiver.statuses = {"/before": None, "/after": None}
        begun = {job: client.submit(job).id for job in ("single", "calling", "crowded")}
        for run_id in begun.values():
            in_state(client, run_id, State.RUNNING)
        held = client.submit("sleeper", delay="1s")
        held.hold()
        found = {
            State.PRERUN: client.submit("sleeper", delay="1h").id,
            State.PENDING: held.id,
            State.CONDITION_RUNNING: client.submit("hooked").id,
            State.ACTION_RUNNING: client.submit("single").id,
            State.SCHEDULED: client.submit("crowded").id,
            State.TERMINATING: client.submit("ending").id,
            State.RETRYING: client.submit("failing").id,
            State.RUNNING: begun["single"],
        }
        by_check, by_call = client.submit("checked").id, client.submit("calling").id
        for state, run_id in found.items():
            in_state(client, run_id, state)
        in_state(client, by_check, State.CONDITION_RUNNING)
        in_state(client, by_call, State.ACTION_RUNNING)
        wait_until(lambda: len(sleeping(folder)) == 5, "three runs, a check and a called run execute")
        wait_until(lambda: {path for path, _, _ in receiver.got} == {"/before", "/after"}, "both hooks are asked")
        every = [*found.values(), by_check, by_call, begun["calling"], begun["crowded"]]
        for run_id in [*found.values(), by_check, by_call, *every]:
            client.cancel(run_id)
        for run_id in every:
            in_state(client, run_id, State.CANCELLED)
            ends = [one.after for one in client.history(run_id) if one.after in TERMINAL]
            assert ends == [State.CANCELLED], run_id
        wait_until(lambda: not sleeping(folder), "nothing is left running")
        live = [run for run in client.runs() if run.state not in TERMINAL]
        assert live == []
        for path, state in (("/before", State.CONDITION_RUNNING), ("/after", State.TERMINATING)):
            assert len(set(receiver.ids(path, found[state]))) == 1
        receiver.release()


@pytest.mark.behaviour("CON-1", "CON-5", "CON-7", "RUN-17", "REC-6")
def test_hooks_and_webhooks_outlast_the_death_of_scheduler_and_sender(folder: Path) -> None:
    with receiving(SECRET) as receiver:
        receiver.statuses = {"/before": None, "/after": None, "/done": 503}
        server = serve(folder, receiver)
        try:
            server.start()
            with client_of(server) as client:
                before, after = client.submit("hooked").id, client.submit("ending").id
            wait_until(lambda: receiver.ids("/before", before) and receiver.ids("/after", after), "hooks are asked")
            server.kill()
            server.start()
            wait_until(lambda: len(receiver.ids("/before", before)) > 1, "the hook before the run is asked again")
            wait_until(lambda: len(receiver.ids("/after", after)) > 1, "the hook after the run is asked again")
            receiver.release()
            with client_of(server) as client:
                for run_id in (before, after):
                    in_state(client, run_id, State.SUCCEEDED)
                wait_until(lambda: receiver.ids("/done", before), "the webhook is tried")
                (sender,) = [one for one in processes_of(folder) if "interlock.wiring.sender:send" in one.command]
                os.kill(sender.pid, signal.SIGKILL)
            server.kill()
            receiver.statuses = {}
            tried = len(receiver.ids("/done", before))
            server.start()
            with client_of(server) as client:
                wait_until(lambda: len(receiver.ids("/done", before)) > tried, "the webhook is tried again")
                wait_until(lambda: [one.state for one in client.deliveries()] == ["delivered"], "it is delivered")
                (delivery,) = client.deliveries(run=before)
                again = client.redeliver(delivery.id)
                assert again.state in ("pending", "delivered")
                wait_until(lambda: len(receiver.ids("/done", before)) > tried + 1, "it is delivered again by hand")
            for path, run_id in (("/before", before), ("/after", after), ("/done", before)):
                assert len(set(receiver.ids(path, run_id))) == 1, "each repetition has the same id"
            assert server.stop() == 0, server.said
        finally:
            server.kill()


@pytest.mark.behaviour("LAN-7", "CON-5")
def test_a_run_that_waits_for_its_hook_ends_before_the_server_stops(folder: Path) -> None:
    with receiving(SECRET) as receiver:
        receiver.statuses = {"/after": None}
        with serve(folder, receiver) as server, client_of(server) as client:
            run_id = client.submit("ending").id
            wait_until(lambda: receiver.ids("/after", run_id), "the hook is asked")
            server.send(signal.SIGINT)
            wait_until(lambda: "stopping" in server.said, "it is stopping")
            receiver.release()
            assert server.ended() == 0
        assert "1 succeeded, 0 kept for the next start" in server.said


ASKING = """\
kind: Policy
id: careful
default_decision: require_approval
---
kind: Job
id: pay
run: {process: [sh, -c, "echo begun >> begun.txt"]}
"""


@pytest.mark.behaviour("POL-8", "RUN-17")
def test_an_approved_run_is_dispatched_once_when_the_scheduler_dies(folder: Path) -> None:
    (folder / "jobs.yaml").write_text(ASKING)
    (folder / "interlock.yaml").write_text("tokens: [{name: ann, role: approver, token: ann-0123456789abcdef}]\n")
    server = Server(folder, str(folder / "jobs.yaml"), "--http", "127.0.0.1:0", target=None)
    try:
        server.start()
        with client_of(server) as bob:
            run_id = bob.submit("pay").id
        with il.Client(server.url, token="ann-0123456789abcdef") as ann:
            ann.approve(run_id, "looked at", ann.approval(run_id).seen)
        server.kill()
        server.start()
        with client_of(server) as bob:
            in_state(bob, run_id, State.SUCCEEDED)
            assert [one.after for one in bob.history(run_id)].count(State.APPROVAL_REQUIRED) == 1
        assert (folder / "begun.txt").read_text() == "begun\n"
        assert server.stop() == 0, server.said
    finally:
        server.kill()
