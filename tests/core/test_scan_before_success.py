"""`scan: before_success`: what comes out of a run is shown to nobody before its scan, whatever happens meanwhile."""

from typing import Any

import pytest

from interlock.core.attempts.log_table import Logs
from interlock.core.explain import explain
from interlock.core.output import Scans
from interlock.interface.run_view import info_of
from interlock.model.bulk import RunAction
from interlock.model.explanation import ReasonKind
from interlock.model.guard import Constraints, Hook
from interlock.model.job import Job, Retry
from interlock.model.policy.output import FailMode, OutputStatus, Scanned, ScanTime
from interlock.model.run import Run
from interlock.model.state import State
from interlock.policy.policy import Policy
from interlock.ports.store import StoredEvent
from interlock.wire.approval_request import ReleaseOutput
from interlock.wire.message import LogMessage, Progress
from tests.core.machine import Machine, at_once
from tests.core.test_output import FOUND, SECRETS, A, audited, letters, policy, report

S = State
RESULT = b'{"key":"value"}'
WITHHELD: tuple[Any, ...] = (S.OUTPUT_QUARANTINED, OutputStatus.QUARANTINED, (None, []), ["quarantined"])
SKIPPED = (S.SUCCEEDED, OutputStatus.SKIPPED)
REDACTED = (S.SUCCEEDED, OutputStatus.REDACTED)


def before(**fields: Any) -> Policy:
    return policy(scanners=(SECRETS,), scan=ScanTime.BEFORE, **fields)


def write(machine: Machine, run_id: str, *texts: str) -> None:
    fence, first = machine.run(run_id).fence, len(machine.store.lines.get(run_id, {})) + 1
    for number, text in enumerate(texts, first):
        machine.step(("one", LogMessage(run_id, fence, number, machine.wall, "info", text)))


def scanning(job: Job | None = None, **fields: Any) -> tuple[Machine, str]:
    """A run with two lines and a result that waits for its scan."""
    machine = Machine(*([] if job is None else [job]), policy=before(**fields))
    run_id = machine.running()
    write(machine, run_id, "one", "two")
    machine.step(("one", Progress(run_id, machine.run(run_id).fence, 50.0, "half")))
    machine.finished(run_id, result=RESULT)
    return machine, run_id


def lines(machine: Machine, run_id: str) -> list[str]:
    return [one.text for one in at_once(machine.store.logs(run_id))]


def streamed(machine: Machine) -> list[str]:
    rows = at_once(machine.store.events(0, 1000))
    return [one.line.text for one in rows.events if isinstance(one, StoredEvent) and one.line is not None]


def status(run: Run) -> OutputStatus | None:
    return None if run.facets is None or run.facets.output is None else run.facets.output.status


def shows_nothing(machine: Machine, run_id: str) -> bool:
    run = machine.store.runs_by_id[run_id]
    texts = [*lines(machine, run_id), *streamed(machine), *(text for *_, text in machine.last.progressed.values())]
    progress = machine.state.of(Logs).progress.get(run_id) or info_of(run).progress
    return not any(texts) and run.shown_result is None and (progress is None or not progress.text)


@pytest.mark.behaviour("OUT-2", "OUT-7", "RUN-20")
def test_nothing_is_shown_while_it_runs_and_while_it_is_scanned() -> None:
    machine = Machine(policy=before())
    run_id = machine.running()
    write(machine, run_id, "one")
    machine.step(("one", Progress(run_id, machine.run(run_id).fence, 50.0, "half")))
    assert shows_nothing(machine, run_id)
    assert machine.state.of(Logs).progress[run_id].percent == 50.0
    machine.finished(run_id, result=RESULT)
    run = machine.run(run_id)
    assert (run.state, run.result, status(run)) == (S.TERMINATING, RESULT, OutputStatus.PENDING)
    assert shows_nothing(machine, run_id)
    (reason,) = explain(machine.state, run, machine.now).reasons
    assert (reason.kind, "scan" in reason.text) == (ReasonKind.OUTPUT, True)
    report(machine, Scanned(run_id, A.ALLOW))
    run = machine.run(run_id)
    assert (run.state, run.shown_result, status(run)) == (S.SUCCEEDED, RESULT, OutputStatus.CLEAN)
    assert lines(machine, run_id) == streamed(machine) == ["one"]
    positions = [one.position for one in at_once(machine.store.events(0, 1000)).events]
    assert positions == sorted(positions)
    assert at_once(machine.store.logs(run_id))[-1].position < positions[-1], "the log comes before the end"


@pytest.mark.behaviour("OUT-2", "OUT-5", "OUT-7")
@pytest.mark.parametrize(
    ("scan", "end", "found", "shown", "kinds"),
    [
        (Scanned("", A.ALLOW, FOUND, 1), S.SUCCEEDED, OutputStatus.CLEAN, (RESULT, ["one", "two"]), []),
        (Scanned("", A.QUARANTINE, FOUND, 1), *WITHHELD),
        (Scanned("", A.DENY, FOUND, 1), *WITHHELD),
        (Scanned("", A.REDACT, FOUND, 1), *WITHHELD),
        (Scanned("", A.REDACT, FOUND, 1, b'"x"'), *REDACTED, (b'"x"', ["one", "two"]), ["redacted"]),
        (Scanned("", A.REDACT, FOUND, 1, lines=((1, 2, "TWO"),)), *REDACTED, (RESULT, ["one", "TWO"]), ["redacted"]),
        (Scanned("", A.ALLOW, error="hung"), *SKIPPED, (RESULT, ["one", "two"]), ["scan_skipped"]),
        # Result and log are scanned apart: one may hang while something is found in the other.
        (Scanned("", A.QUARANTINE, FOUND, 1, error="hung"), *WITHHELD),
        (Scanned("", A.DENY, FOUND, 1, error="hung"), *WITHHELD),
        (Scanned("", A.REDACT, FOUND, 1, b'"x"', error="hung"), *REDACTED, (b'"x"', ["one", "two"]),
         ["scan_skipped", "redacted"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_scan_decides_once(
    scan: Scanned, end: State, found: OutputStatus, shown: tuple[Any, ...], kinds: list[str], is_restarted: bool
) -> None:
    machine, run_id = scanning()
    if is_restarted:
        machine.restart()
        assert shows_nothing(machine, run_id)
    scan = Scanned(run_id, scan.decision, scan.findings, scan.found, scan.redacted, 0.25, scan.error, scan.lines)
    position = (machine.state.of(Scans).position or 0) + 1
    for place in (position, position, position - 1):
        report(machine, scan, position=place)
        assert machine.state.of(Scans).position == position
    run = machine.run(run_id)
    assert (run.state, status(run), audited(machine)) == (end, found, kinds)
    assert (run.shown_result, lines(machine, run_id)) == shown
    assert letters(machine) == [run_id] * (end is S.OUTPUT_QUARANTINED)
    if end is S.OUTPUT_QUARANTINED:
        machine.step(("client", ReleaseOutput(1, run_id, "fine").by(actor="ann")))
        assert (machine.run(run_id).shown_result, lines(machine, run_id)) == (RESULT, ["one", "two"])


@pytest.mark.behaviour("OUT-2", "OUT-3", "OUT-7")
@pytest.mark.parametrize(
    ("mode", "end", "found", "kinds"),
    [
        (FailMode.OPEN, S.SUCCEEDED, OutputStatus.SKIPPED, ["scan_skipped"]),
        (FailMode.CLOSED, S.OUTPUT_QUARANTINED, OutputStatus.QUARANTINED, ["quarantined"]),
    ],
)
@pytest.mark.parametrize("is_restarted", [False, True])
def test_scanners_that_give_no_sign_for_a_minute(
    mode: FailMode, end: State, found: OutputStatus, kinds: list[str], is_restarted: bool
) -> None:
    machine, run_id = scanning(fail_mode=mode)
    machine.advance(40)
    report(machine, position=machine.state.of(Scans).position)  # a sign of life, without a result
    if is_restarted:
        machine.restart()
    machine.advance(59)
    machine.step()
    assert (machine.state_of(run_id), shows_nothing(machine, run_id)) == (S.TERMINATING, True)
    machine.advance(2)
    run = machine.run(run_id)
    assert (run.state, status(run), audited(machine)) == (end, found, kinds)
    assert run.shown_result == (RESULT if mode is FailMode.OPEN else None)
    report(machine, Scanned(run_id, A.QUARANTINE, FOUND, 1))
    assert machine.state_of(run_id) is end, "a late scan changes nothing"


@pytest.mark.behaviour("OUT-2", "OUT-6", "RUN-10")
@pytest.mark.parametrize("how", ["cancelled", "failed", "orphaned"])
@pytest.mark.parametrize("decision", [A.ALLOW, A.QUARANTINE])
def test_the_log_of_a_run_that_does_not_succeed_is_scanned_too(how: str, decision: A) -> None:
    machine = Machine(Job(id="work", max_crashes=1), policy=before())
    run_id = machine.running()
    write(machine, run_id, "one", "two")
    if how == "cancelled":
        machine.finished(run_id, result=RESULT)
        machine.act(RunAction.CANCEL, run_id)
    elif how == "failed":
        machine.finished(run_id, "failed")
    else:
        machine.lost(run_id)
    assert (machine.state_of(run_id), machine.run(run_id).result) == (S(how), None)
    assert shows_nothing(machine, run_id)
    report(machine, Scanned(run_id, decision, FOUND, 1))
    assert lines(machine, run_id) == (["one", "two"] if decision is A.ALLOW else [])
    assert machine.state_of(run_id) is S(how)
    if decision is A.QUARANTINE:
        machine.step(("client", ReleaseOutput(1, run_id, "fine").by(actor="ann")))
        assert lines(machine, run_id) == ["one", "two"]


@pytest.mark.behaviour("OUT-2", "RUN-10")
def test_a_scan_gives_no_result_to_a_run_that_was_cancelled_meanwhile() -> None:
    machine, run_id = scanning()
    machine.act(RunAction.CANCEL, run_id)
    report(machine, Scanned(run_id, A.REDACT, FOUND, 1, b'"x"', lines=((1, 2, "TWO"),)))
    run = machine.store.runs_by_id[run_id]
    assert (run.state, run.result, status(run)) == (S.CANCELLED, None, OutputStatus.REDACTED)
    assert lines(machine, run_id) == ["one", "TWO"]


@pytest.mark.behaviour("OUT-2", "OUT-7")
@pytest.mark.parametrize(
    ("mode", "found", "shown", "kinds"),
    [
        (FailMode.OPEN, OutputStatus.SKIPPED, ["one"], ["scan_skipped"]),
        (FailMode.CLOSED, OutputStatus.QUARANTINED, [], ["quarantined"]),
    ],
)
@pytest.mark.parametrize("outcome", ["succeeded", "failed"])
def test_a_run_that_ends_after_the_scanners_are_gone(
    mode: FailMode, found: OutputStatus, shown: list[str], kinds: list[str], outcome: str
) -> None:
    machine = Machine(policy=before(fail_mode=mode))
    run_id = machine.running()
    write(machine, run_id, "one")
    machine.policy = policy(fail_mode=mode)
    machine.step(("", machine.define()))
    machine.finished(run_id, outcome)
    run = machine.store.runs_by_id[run_id]
    end = S.OUTPUT_QUARANTINED if (outcome, mode) == ("succeeded", FailMode.CLOSED) else S(outcome)
    assert (run.state, status(run), lines(machine, run_id), audited(machine)) == (end, found, shown, kinds)
    if mode is FailMode.CLOSED:
        machine.step(("client", ReleaseOutput(1, run_id, "fine").by(actor="ann")))
        assert lines(machine, run_id) == ["one"]


@pytest.mark.behaviour("OUT-2", "OUT-7")
@pytest.mark.parametrize("decision", [A.ALLOW, A.REDACT])
def test_an_error_beside_a_finding_withholds_where_the_policy_fails_closed(decision: A) -> None:
    machine, run_id = scanning(fail_mode=FailMode.CLOSED)
    report(machine, Scanned(run_id, decision, FOUND, 1, b'"x"' if decision is A.REDACT else None, error="hung"))
    assert (machine.state_of(run_id), audited(machine)) == (S.OUTPUT_QUARANTINED, ["quarantined"])
    assert machine.run(run_id).result == RESULT, "an approver releases the original"


@pytest.mark.behaviour("OUT-2", "RUN-22")
def test_a_deadline_does_not_end_work_that_is_done() -> None:
    machine = Machine(policy=before())
    run_id = machine.running(deadline=machine.wall + 10)
    machine.finished(run_id, result=RESULT)
    machine.advance(20)
    assert machine.state_of(run_id) is S.TERMINATING
    report(machine, Scanned(run_id, A.ALLOW))
    assert machine.state_of(run_id) is S.SUCCEEDED


@pytest.mark.behaviour("OUT-2", "RET-3")
def test_lines_of_all_attempts_are_held_back() -> None:
    machine = Machine(Job(id="work", retry=Retry(max_retries=1, initial_delay=1, jitter=0)), policy=before())
    run_id = machine.running()
    write(machine, run_id, "first attempt")
    machine.finished(run_id, "failed")
    machine.advance(1)
    machine.started(run_id)
    write(machine, run_id, "second attempt")
    machine.finished(run_id, result=RESULT)
    assert shows_nothing(machine, run_id)
    report(machine, Scanned(run_id, A.ALLOW))
    assert lines(machine, run_id) == ["first attempt", "second attempt"]


@pytest.mark.behaviour("OUT-2")
@pytest.mark.parametrize("scan", [ScanTime.BEFORE, ScanTime.AFTER, None])
def test_a_policy_that_changes_meanwhile(scan: ScanTime | None) -> None:
    machine, run_id = scanning()
    machine.policy = policy() if scan is None else policy(scanners=(SECRETS,), scan=scan, timeout=5.0)
    machine.step(("", machine.define()))
    if scan is None:
        assert (machine.state_of(run_id), status(machine.run(run_id))) == (S.SUCCEEDED, OutputStatus.SKIPPED)
    else:
        assert shows_nothing(machine, run_id)
        report(machine, Scanned(run_id, A.ALLOW))
        assert machine.state_of(run_id) is S.SUCCEEDED
    assert lines(machine, run_id) == ["one", "two"]


@pytest.mark.behaviour("OUT-2", "CON-5")
def test_the_hook_after_the_run_is_called_after_its_scan() -> None:
    hook = Hook(url="http://127.0.0.1:9/done")
    machine, run_id = scanning(Job(id="work", constraints=Constraints(post_run_hook=hook)))
    assert machine.called == []
    machine.hook = None
    report(machine, Scanned(run_id, A.ALLOW))
    assert machine.state_of(run_id) is S.TERMINATING
    assert [effect.run_id for effect in machine.called] == [run_id]
    assert shows_nothing(machine, run_id)


@pytest.mark.behaviour("OUT-7")
def test_after_success_every_run_has_a_record() -> None:
    machine = Machine(policy=policy(scanners=(SECRETS,)))
    first, second = machine.running(), machine.running()
    for run_id in (first, second):
        machine.finished(run_id, result=RESULT)
        assert (machine.state_of(run_id), status(machine.run(run_id))) == (S.SUCCEEDED, OutputStatus.PENDING)
        assert machine.run(run_id).shown_result == RESULT
    report(machine, Scanned(first, A.ALLOW), Scanned(second, A.ALLOW, error="it hung"))
    assert status(machine.store.runs_by_id[first]) is OutputStatus.CLEAN
    assert status(machine.store.runs_by_id[second]) is OutputStatus.SKIPPED
    assert audited(machine) == ["scan_skipped"]
