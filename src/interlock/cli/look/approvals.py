"""`interlock approvals`, and verdicts and approvals in words."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any

import msgspec

from interlock.cli.draw.format import counted, span
from interlock.cli.draw.listing import AGE, AHEAD, JSON, SCREEN, Column, Listing, piped
from interlock.cli.draw.tables import json_text, on_one_line
from interlock.cli.shared import completion
from interlock.cli.shared.options import FINDING, Flags, JsonOption, option, takes
from interlock.cli.shared.server import client_of
from interlock.cli.shared.short_ids import with_short_ids
from interlock.client.http.client import Client
from interlock.fields.duration import brief
from interlock.interface.approval_view import ApprovalDetail, ApprovalInfo
from interlock.model.approval import VerdictInfo

MOST_KINDS = 10  # kinds of runs that `recent` names


class ApprovalOnScreen(ApprovalInfo, frozen=True, kw_only=True):
    payload: Any


APPROVALS = Listing[ApprovalInfo](
    "approvals",
    "no run waits for an approval",
    Column("run", "run_id"),
    Column("job", "job_id"),
    Column("rule", spare=1),
    Column("asked by", "created_by"),
    Column("waits", "asked_at", AGE),
    Column("expires in", "expires_at", AHEAD),
    Column("payload", on=SCREEN, form=JSON, gives_way=True),
    *piped("tenant", "reason"),
)


@takes(*FINDING)
def command(
    flags: Flags,
    job: Annotated[str | None, option("JOB", "Only runs of this job.", autocompletion=completion.jobs)] = None,
    tenant: Annotated[str | None, option("TEXT", "Only runs of this tenant.")] = None,
    limit: Annotated[int, option("NUMBER", "Most runs to list.", "--limit", "-n")] = 50,
    json: JsonOption = False,
) -> None:
    """List runs that wait for an approval, the newest first. `interlock approve` shows one of them whole.

    Piped: run, job, rule, submitter, time of the question, time at which it expires, tenant and reason, separated by
    tabs."""
    with client_of(flags) as client:
        found = client.approvals(job=job, tenant=tenant, limit=limit + 1)
        APPROVALS.show(json, found, limit, on_screen=partial(_with_payloads, client))


def _with_payloads(client: Client, approvals: list[ApprovalInfo]) -> list[ApprovalOnScreen]:
    found = [
        ApprovalOnScreen(**msgspec.structs.asdict(approval), payload=client.get(approval.run_id).payload)
        for approval in approvals
    ]
    return with_short_ids(client, found, "run_id")


def facts(one: ApprovalDetail, now: float) -> Iterator[str]:
    """Yield what an approver must know, a line for each fact."""
    rule = f"{one.rule or 'the default'} (policy {one.policy})" if one.policy else ""  # a workflow asks by itself
    by = ", ".join(one.submitters) or one.created_by
    pairs = (
        ("run", one.run_id), ("payload", json_text(one.payload)), ("job", one.job_id), ("topic", one.topic),
        ("tenant", one.tenant), ("capabilities", ", ".join(one.capabilities)), ("risk tags", ", ".join(one.risk_tags)),
        ("requires", ", ".join(one.requires)), ("labels", ", ".join(f"{k}={v}" for k, v in one.labels.items())),
        ("rule", rule), ("reason", one.reason), ("asked by", f"{by}, {span(now - one.asked_at)} ago"),
        ("also did", _recent(one)), ("expires in", span(one.expires_at - now)),
    )  # fmt: skip
    # On one line each: a submitter must not be able to forge another fact.
    return (f"{name:<14}{on_one_line(text)}" for name, text in pairs if text)


def _recent(one: ApprovalDetail) -> str:
    """Return in words what else the submitter did."""
    total = sum(found.count for found in one.recent)
    if not total:
        return "nothing else in the last 24 hours"
    kinds = [f"{found.job_id} {found.count:,} {found.state}" for found in one.recent[:MOST_KINDS]]
    rest = [f"{len(one.recent) - MOST_KINDS} more kinds"] if len(one.recent) > MOST_KINDS else []
    least = "" if one.recent_complete else "at least "
    return f"{least}{counted(total, 'run')} in the last 24 hours: {', '.join(kinds + rest)}"


def verdict_facts(verdict: VerdictInfo | None, when: Callable[[float | None], str]) -> Iterator[tuple[str, str]]:
    """Yield names and texts: the verdict, its limits, the approval; `when` formats a time."""
    if verdict is None:
        return
    source = f"rule {verdict.rule}" if verdict.rule else "the default"
    reason = f": {verdict.reason}" if verdict.reason else ""
    by = f"{source} of policy {verdict.policy}" if verdict.policy else "its workflow"
    yield "verdict", f"{verdict.decision} by {by}{reason}"
    if verdict.limits:
        yield "limits", ", ".join(f"{name} {_limit(name, value)}" for name, value in verdict.limits.items())
    if (answer := verdict.answer) is not None:
        done = "approved" if answer.approved else "rejected"
        yield "approval", f"{done} by {answer.by}, {when(answer.at)}: {answer.reason}"
    elif verdict.asked_at is not None:
        yield "approval", f"asked for {when(verdict.asked_at)}, expires {when(verdict.expires_at)}"


def _limit(name: str, value: Any) -> str:
    return brief(value) if name == "max_runtime" else " ".join(value) if isinstance(value, list | tuple) else str(value)
