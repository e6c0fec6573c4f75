"""The output policy: metadata is judged as a run ends, content by another process after its success.

    terminating ─► output_quarantined     a rule withholds the result: phase one
    succeeded   ─► output_quarantined     a scanner found something: phase two

The scanning process follows the positions of the store. It reports how far it has come together with what it found, so
a restart continues where the last report ended. A withheld result stays in the store, and is shown to nobody until an
approver releases it.
"""

from msgspec.structs import replace

from interlock.core.facts import Needs
from interlock.core.state import SchedulerState
from interlock.core.transition import Pass
from interlock.model.access import OWNER
from interlock.model.approval_request import ReleaseOutput
from interlock.model.audit import AuditKind
from interlock.model.error import NotQuarantined, RunPruned, UnknownRun
from interlock.model.message import Finished
from interlock.model.outcome import Outcome
from interlock.model.output import MOST_KEPT, FailMode, OutputRecord, Scanned
from interlock.model.output_request import ReportScans, ScansStored
from interlock.model.payload import fault_of
from interlock.model.request import StateReport
from interlock.model.run import Run
from interlock.model.scanner import OutputAction
from interlock.model.state import State
from interlock.policy.output import Metadata, Output

MEMO = "scanned"  # position up to which results are scanned


def output_of(state: SchedulerState) -> Output | None:
    return None if state.policy is None else state.policy.output


def adopt_output(p: Pass, position: int) -> None:
    """Scan results from `position` on, if a policy that scans is new; forget where the scans were if none does."""
    output = output_of(p.state)
    if output is not None and output.document.scanners:
        if p.state.scanned is None:
            _note_position(p, position)
    elif p.state.scanned is not None:
        p.state.scanned = p.batch.memos[MEMO] = None


def _note_position(p: Pass, position: int) -> None:
    p.state.scanned = position
    p.batch.memos[MEMO] = str(position).encode()


def withhold(p: Pass, run: Run, at: float | None) -> bool:
    """Judge the metadata of a result; quarantine it and return True if it must not come out."""
    output = output_of(p.state)
    if output is None:
        return False
    p.outputs_checked += 1
    job = p.state.job_of(run)
    size = 0 if run.result is None else len(run.result)
    rule = output.judge(Metadata(job.policy_topic, run.tenant, job.sensitivity, size, run.exit_code))
    if rule is None:
        return False
    reason = f"rule {rule.id}: {rule.reason or rule.decision}"
    _quarantine(p, run, OutputRecord(1, rule.decision, p.now, rule.id, rule.reason), reason, at)
    return True


def _quarantine(p: Pass, run: Run, record: OutputRecord, reason: str, at: float | None = None) -> None:
    p.set_facet(run, output=record)
    p.move(run, State.OUTPUT_QUARANTINED, reason, at=at)
    p.quarantined.append(run)
    p.audit(
        AuditKind.QUARANTINED, run.created_by, run.tenant, run.id,
        job=run.job_id, phase=record.phase, rule=record.rule, kinds=sorted({one.kind for one in record.findings}),
    )  # fmt: skip


def narrowed(state: SchedulerState, run: Run, message: Finished) -> Finished:
    """Return the report of an attempt as it may be kept: a result that is too large or no JSON is a failure, and the
    output policy takes secrets out of errors."""
    allowed, result = run.limits.max_output, message.result
    if result is not None:
        fault = fault_of(result, "result")
        if allowed is not None and len(result) > allowed:
            fault = f"the result has {len(result):,} bytes, and the policy allows {allowed:,}"
        if fault is not None:
            return replace(message, outcome=Outcome.FAILED_FATAL, result=None, error=fault)
    output, failure = output_of(state), message.failure
    if output is None or message.error is None:
        return message
    if failure is not None:
        failure = replace(failure, message=output.redact(failure.message))
    return replace(message, error=output.redact(message.error), failure=failure)


def report_needs(state: SchedulerState, command: ReportScans, needs: Needs) -> None:
    needs.runs.update(dict.fromkeys(one.run_id for one in command.found if one.run_id not in state.runs))


def report_scans(p: Pass, origin: str, command: ReportScans) -> None:
    """Act on what scans found, unless the run has left its success since; repeated, it changes nothing. Scans for
    another policy do not count: they are made again."""
    policy, scanned = p.state.policy, p.state.scanned
    if policy is not None and scanned is not None and command.digest == policy.digest and command.position > scanned:
        for one in command.found:
            run = p.find(one.run_id)
            if run is not None and run.state is State.SUCCEEDED and (run.facets is None or run.facets.output is None):
                _act(p, run, one, policy.document.output_fail_mode)
        p.scans.append((command.checked, command.seconds))
        _note_position(p, command.position)
    p.answers.append((origin, ScansStored(command.request, p.state.scanned or 0)))


def _act(p: Pass, run: Run, found: Scanned, fail_mode: FailMode) -> None:
    kinds = sorted({one.kind for one in found.findings})
    decision, reason = found.decision, f"{', '.join(kinds)} found"
    if found.error:
        p.scans_skipped += 1
        if fail_mode is FailMode.OPEN:
            return
        decision, reason = OutputAction.QUARANTINE, f"the result could not be scanned: {found.error}"
    record = OutputRecord(2, decision, p.now, "", reason, found.findings[:MOST_KEPT], found.found, found.took)
    if decision is OutputAction.REDACT and found.redacted is not None:
        run.result = found.redacted
        p.set_facet(run, output=record)
        p.audit(AuditKind.REDACTED, run.created_by, run.tenant, run.id, job=run.job_id, kinds=kinds)
    elif decision is OutputAction.ALLOW:
        p.set_facet(run, output=record)
    else:
        _quarantine(p, run, record, reason)


def release_needs(state: SchedulerState, command: ReleaseOutput, needs: Needs) -> None:
    needs.runs[command.run_id] = None


def release_output(p: Pass, origin: str, command: ReleaseOutput) -> None:
    """Hand out the original of a withheld result; nothing runs again."""
    run = p.find(command.run_id)
    if run is None:
        raise (RunPruned if command.run_id in p.facts.pruned else UnknownRun)(command.run_id)
    record = None if run.facets is None else run.facets.output
    if run.state is not State.OUTPUT_QUARANTINED or record is None:
        raise NotQuarantined(run.id, run.state)
    if record.released_at is None:
        actor = command.actor or OWNER.name
        released = replace(record, released_by=actor, released_at=p.now, release_reason=command.reason)
        p.set_facet(run, output=released)
        p.audit(AuditKind.RELEASED, actor, run.tenant, run.id, job=run.job_id, reason=command.reason)
    p.answers.append((origin, StateReport(command.request, run.id, run.state)))
