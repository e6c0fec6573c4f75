"""The output policy: metadata is judged as a run ends, content by another process, after its success or before.

    terminating ─► output_quarantined     a rule withholds the result: phase one
    succeeded   ─► output_quarantined     a scanner found something: phase two, `scan: after_success`
    terminating ─► succeeded, output_quarantined                     phase two, `scan: before_success`

The scanning process follows the positions of the store, and scans runs whose record is pending. It reports how far it
has come together with what it found, so a restart continues where the last report ended. A withheld result stays in its
row; `Run.shown_result` is the only way to it for every interface, and returns nothing until an approver releases it
(facet `output`).

With `scan: before_success` a run has its pending record from its first output on, and stays `terminating` after its
work until the report arrives; if the scanners give no sign for 60 s, the fail mode decides. While it is live, its
progress has no text and its log lines have negative positions (`Batch.held`): no reader looks below 0, so no interface
can forget to hide them. The commit that ends the run gives them new positions before its end, for streams as for
`logs`, unless the run is quarantined.
"""

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from interlock.core.attempts.log_table import Logs
from interlock.core.facts import Needs, Snapshot, needs_run
from interlock.core.guards.http_hooks import call_after, call_hook
from interlock.core.part import Part, Wait, for_special_runs, leaves
from interlock.core.policy.judge_state import Judging
from interlock.core.state import WAIT, SchedulerState
from interlock.core.transition import Pass
from interlock.error import NotQuarantined
from interlock.fields.duration import span
from interlock.fields.payload import fault_of
from interlock.model.access import OWNER
from interlock.model.audit import AuditKind
from interlock.model.explanation import Reason, ReasonKind
from interlock.model.facets import Facets
from interlock.model.failure import Outcome
from interlock.model.guard import POST_HOOK
from interlock.model.policy.output import MOST_KEPT, FailMode, OutputRecord, OutputStatus, Scanned, ScanTime
from interlock.model.policy.scanner import OutputAction
from interlock.model.run import Now, Run
from interlock.model.state import LIVE, TERMINAL, State
from interlock.policy.output import CompiledOutputPolicy, Metadata
from interlock.wire.approval_request import ReleaseOutput
from interlock.wire.message import Finished
from interlock.wire.output_request import ReportScans
from interlock.wire.request import ValueAnswer

MEMO = "scanned"  # position up to which results are scanned
NO_SCANNERS = "the policy has no scanners any more"
PATIENCE = 60.0  # seconds without a sign of the scanners after which a run no longer waits for them


class Scans(msgspec.Struct):
    position: int | None = None  # up to which results are scanned; None if none are
    heard: float = 0.0  # elapsed time of the last sign of the scanners

    @property
    def are_made(self) -> bool:
        """Whether there are scanners; without them nobody scans what has succeeded."""
        return self.position is not None


def output_of(state: SchedulerState) -> CompiledOutputPolicy | None:
    policy = state.of(Judging).policy
    return None if policy is None else policy.output


def adopt_output(p: Pass, position: int) -> None:
    """Scan results from `position` on, if a policy that scans is new; forget where the scans were if none does."""
    output = output_of(p.state)
    if output is not None and output.document.scanners:
        if p.state.of(Scans).position is None:
            _note_position(p, position)
    elif p.state.of(Scans).position is not None:
        p.state.of(Scans).position = None
        p.keep_memo(MEMO, None)
        for run in [run for run in p.state.runs.values() if waits_for_scan(run)]:
            _give_up(p, run, NO_SCANNERS)


def _note_position(p: Pass, position: int) -> None:
    p.state.of(Scans).position = position
    p.keep_memo(MEMO, str(position).encode())


def withhold(p: Pass, run: Run, at: float | None) -> bool:
    """Judge the metadata of a result; quarantine it and return True if it must not come out."""
    output = output_of(p.state)
    if output is None:
        return False
    p.outputs_judged.append(run.job_id)
    job = p.state.job_of(run)
    size = 0 if run.result is None else len(run.result)
    rule = output.judge(Metadata(job.policy_topic, run.tenant, job.sensitivity, size, run.exit_code))
    if rule is None:
        return False
    reason = f"rule {rule.id}: {rule.reason or rule.decision}"
    _quarantine(p, run, OutputRecord(1, rule.decision, p.now, rule.id, rule.reason), reason, at)
    return True


def _quarantine(p: Pass, run: Run, record: OutputRecord, reason: str, at: float | None = None) -> None:
    lines = p.state.of(Logs).sizes.get(run.id, (0, 0))[0] if run.is_held_back else 0
    p.set_facet(run, output=replace(record, status=OutputStatus.QUARANTINED, lines=lines))
    p.move(run, State.OUTPUT_QUARANTINED, reason, at=at)
    p.count("output_quarantined_total", _topic_of(p, run), str(record.phase))
    _audit_quarantine(p, run, record)


def _topic_of(p: Pass, run: Run) -> str:
    """Return the topic of a run, which may have ended so long ago that nobody knows its definition any more."""
    job = p.state.versions.get(run.job_version) or p.state.jobs.get(run.job_id)
    return run.job_id if job is None else job.policy_topic


def _audit_quarantine(p: Pass, run: Run, record: OutputRecord) -> None:
    p.audit(
        AuditKind.QUARANTINED, run.created_by, run.tenant, run.id,
        job=run.job_id, phase=record.phase, rule=record.rule,
        kinds=sorted({finding.kind for finding in record.findings}),
    )  # fmt: skip


def narrowed(state: SchedulerState, run: Run, message: Finished) -> Finished:
    """Return the report of an attempt as it may be stored: a result that is too large or not JSON becomes a failure,
    and the output policy redacts secrets in errors."""
    result = message.result
    if result is not None:
        fault, allowed = fault_of(result, "result"), None if run.facets is None else run.limits.max_output
        if allowed is not None and len(result) > allowed:
            fault = f"the result has {len(result):,} bytes, and the policy allows {allowed:,}"
        if fault is not None:
            return replace(message, outcome=Outcome.FAILED_FATAL, result=None, error=fault)
    if message.error is None or (output := output_of(state)) is None:
        return message
    failure = message.failure
    if failure is not None:
        failure = replace(failure, message=output.redact(failure.message))
    return replace(message, error=output.redact(message.error), failure=failure)


def holds_back(p: Pass, run: Run) -> bool:
    """Return whether nobody may see what comes out of a live run; mark it from its first output on."""
    if run.is_held_back:
        return True
    output = output_of(p.state)
    if output is None or output.document.scan is not ScanTime.BEFORE:
        return False
    _mark_pending(p, run)
    return True


def _mark_pending(p: Pass, run: Run) -> None:
    p.set_facet(run, output=OutputRecord(2, None, p.now, status=OutputStatus.PENDING))


def waits_for_scan(run: Run) -> bool:
    return run.state is State.TERMINATING and run.is_unscanned


def scan_first(p: Pass, run: Run) -> bool:
    """If the policy scans before success, keep a run that has done its work until its output is scanned."""
    if not holds_back(p, run):
        return False
    if p.state.of(Scans).position is None:
        return _give_up(p, run, NO_SCANNERS)
    p.state.set_span(max(p.elapsed, p.state.of(Scans).heard) + PATIENCE, run, WAIT)
    return True


def scan_later(p: Pass, run: Run) -> None:
    """Mark a run that has succeeded as one to be scanned."""
    output = output_of(p.state)
    if output is not None and output.document.scanners and (run.facets is None or run.facets.output is None):
        _mark_pending(p, run)


def scan_overdue(p: Pass, run: Run) -> None:
    """End the wait for scanners that give no sign. While they work, they do."""
    if not waits_for_scan(run):
        return
    end = p.state.of(Scans).heard + PATIENCE
    if end > p.elapsed:
        p.state.set_span(end, run, WAIT)
    else:
        _give_up(p, run, f"no scanner has answered for {span(PATIENCE)}")


def _give_up(p: Pass, run: Run, error: str) -> bool:
    """Treat a run that cannot be scanned as the fail mode says; return True."""
    _act(p, run, Scanned(run.id, OutputAction.ALLOW, error=error))
    return True


def report_needs(state: SchedulerState, command: ReportScans, needs: Needs) -> None:
    needs.runs.update(dict.fromkeys(report.run_id for report in command.found if report.run_id not in state.runs))


def report_scans(p: Pass, origin: str, command: ReportScans) -> None:
    """Act on scans of runs that are still to be scanned; repeated, it changes nothing. Scans for another policy do not
    count: they are made again."""
    policy, scanned = p.state.of(Judging).policy, p.state.of(Scans).position
    p.state.of(Scans).heard = p.elapsed
    if policy is not None and scanned is not None and command.digest == policy.digest and command.position > scanned:
        for report in command.found:
            run = p.find(report.run_id)
            if run is not None and run.is_unscanned and (run.ended_at is not None or run.state is State.TERMINATING):
                _act(p, run, report)
                if not report.error:
                    p.scans.append((_topic_of(p, run), report.took))
        _note_position(p, command.position)
    p.answers.append((origin, ValueAnswer(command.request, p.state.of(Scans).position or 0)))


def _act(p: Pass, run: Run, found: Scanned) -> None:
    """Record a scan and do what it demands; a run that waits for it goes on."""
    record = _record_of(p, run, found)
    is_withheld = record.decision in (OutputAction.QUARANTINE, OutputAction.DENY)
    if run.ended_at is not None and run.state is not State.SUCCEEDED:
        _act_on_log(p, run, record, is_withheld)
    elif is_withheld:
        _quarantine(p, run, record, record.reason)
    elif run.state is State.TERMINATING:
        p.set_facet(run, output=record)
        if not call_after(p, run):
            p.move(run, State.SUCCEEDED, "done")
    elif record.status is OutputStatus.REDACTED:
        p.set_facet(run, output=record)
    else:
        run.facets = replace(run.facets or Facets(), output=record)
        p.marked[run.id] = run


def _record_of(p: Pass, run: Run, found: Scanned) -> OutputRecord:
    """Return the record of a scan, after a redaction."""
    kinds = sorted({finding.kind for finding in found.findings})
    reason, about = f"{', '.join(kinds)} found" if kinds else "", (run.created_by, run.tenant, run.id)
    record = OutputRecord(
        2, found.decision, p.now, "", reason, found.findings[:MOST_KEPT], found.found, found.took,
        status=OutputStatus.CLEAN,
    )  # fmt: skip
    if found.decision in (OutputAction.QUARANTINE, OutputAction.DENY):
        # Even if the other part, the log or the result, could not be scanned.
        return record
    if found.error:
        p.count("output_skipped_total", _topic_of(p, run), "2")
        reason = f"the result could not be scanned: {found.error}"
        policy = p.state.of(Judging).policy
        if policy is not None and policy.document.output_fail_mode is FailMode.CLOSED:
            return replace(record, decision=OutputAction.QUARANTINE, reason=reason)
        p.audit(AuditKind.SCAN_SKIPPED, *about, job=run.job_id, reason=reason)
    if found.decision is not OutputAction.REDACT:
        skipped = replace(record, decision=None, reason=reason, status=OutputStatus.SKIPPED)
        return skipped if found.error else record
    if found.redacted is None and not found.lines:
        return replace(record, decision=OutputAction.QUARANTINE)
    if found.redacted is not None and run.result is not None:  # a run cancelled meanwhile has none
        run.result = found.redacted
    p.batch.logs.redacted += [(text, run.id, attempt, number) for attempt, number, text in found.lines]
    p.audit(AuditKind.REDACTED, *about, job=run.job_id, kinds=kinds)
    return replace(record, status=OutputStatus.REDACTED)


def _act_on_log(p: Pass, run: Run, record: OutputRecord, is_withheld: bool) -> None:
    """Show the log of a run that did not succeed, or withhold it."""
    lines = 0 if run.facets is None or run.facets.output is None else run.facets.output.lines
    if is_withheld:
        record = replace(record, status=OutputStatus.QUARANTINED, lines=lines)
        _audit_quarantine(p, run, record)
    else:
        p.batch.logs.published.append((run.id, lines))
    p.set_facet(run, output=record)


def end_unscanned(p: Pass, run: Run) -> None:
    """Treat the log of a run that has ended as the fail mode says, if nothing scans it any more."""
    if p.state.of(Scans).position is None and run.facets is not None and run.facets.is_unscanned:
        _give_up(p, run, NO_SCANNERS)


def resume(p: Pass, run: Run) -> None:
    """Let a run wait for its scan, or its hook, again after a restart."""
    if not (waits_for_scan(run) and scan_first(p, run)):
        call_hook(p, run, POST_HOOK)


@for_special_runs
def let_out(p: Pass, run: Run) -> None:
    """Show the log of a run whose output was held back, and has passed. A run that did not succeed has no result,
    and its log waits for a scan of its own."""
    if run.facets is None or (record := run.facets.output) is None:
        return
    lines = p.state.of(Logs).sizes.get(run.id, (0, 0))[0]
    is_pending = record.status is OutputStatus.PENDING
    if is_pending and lines:
        p.set_facet(run, output=replace(record, lines=lines))
        return
    if lines:
        p.batch.logs.published.append((run.id, lines))
    if is_pending:
        p.set_facet(run, output=None)


def explain(state: SchedulerState, run: Run, now: Now) -> Iterator[Reason]:
    """Explain a wait for the scan of a result."""
    if waits_for_scan(run):
        text = "has finished its work and waits for the scan of its output"
        yield Reason(kind=ReasonKind.OUTPUT, text=text, since=run.changed_at)


def release_output(p: Pass, origin: str, command: ReleaseOutput) -> None:
    """Hand out the original of a withheld result; nothing runs again."""
    run = p.asked(command)
    record = None if run.facets is None else run.facets.output
    if record is None or not (run.state is State.OUTPUT_QUARANTINED or (record.lines and run.ended_at is not None)):
        raise NotQuarantined(run.id, run.state)
    if record.released_at is None:
        actor = command.actor or OWNER.name
        released = replace(record, released_by=actor, released_at=p.now, release_reason=command.reason)
        p.set_facet(run, output=released)
        if record.lines:
            p.batch.logs.published.append((run.id, record.lines))
        p.audit(AuditKind.RELEASED, actor, run.tenant, run.id, job=run.job_id, reason=command.reason)
    p.answer(origin, command.request, run)


def load(state: SchedulerState, snapshot: Snapshot, now: Now) -> None:
    if MEMO in snapshot.memos:
        state.of(Scans).position = int(snapshot.memos[MEMO])


OUTPUT = Part(
    name="output",
    slices=(Scans,),
    handlers={ReleaseOutput: release_output, ReportScans: report_scans},
    needs={ReleaseOutput: needs_run, ReportScans: report_needs},
    on=((leaves(*LIVE, to=TERMINAL - {State.OUTPUT_QUARANTINED}), let_out),),
    waits={State.TERMINATING: Wait(scan_overdue)},
    looks={State.TERMINATING: resume},
    loads=(load,),
    explains=(explain,),
)
