"""Requests to a policy, rebuilt from the runs that a server shows."""

from functools import cache

import msgspec

from interlock.client.http.client import Client
from interlock.error import UnknownJob
from interlock.fields.field import copy_fields
from interlock.fields.secret import has_secret
from interlock.interface.run_view import RunDetail
from interlock.model.job import Job
from interlock.model.job_info import JobInfo
from interlock.model.policy.verdict import PolicyRequest, Ruling, Verdict
from interlock.model.run import all_submitters

MASKED_NOTE = "note: secrets in payloads are masked, so rules that look at the payload may decide otherwise for the run"


def request_of_run(client: Client, run: RunDetail) -> PolicyRequest:
    """Return the request of a recorded run; tags come from its job as it is now, if there is one."""
    job, labels, payload = _job(client, run.job_id), run.facets.get("labels") or {}, msgspec.json.encode(run.payload)
    *behind, actor = all_submitters(run.facets.get("behind") or (), run.created_by)
    return copy_fields(
        PolicyRequest, run, job=run.job_id, topic=job.topic or job.id, actor=actor, behind=tuple(behind),
        priority=str(run.facets.get("priority") or job.priority), origin=None if run.origin == "submit" else run.origin,
        capabilities=job.capabilities, risk_tags=job.risk_tags, requires=job.requires, labels=labels, payload=payload,
        secrets=has_secret(payload),
    )  # fmt: skip


@cache
def _job(client: Client, job_id: str) -> JobInfo | Job:
    try:
        return client.job(job_id)
    except UnknownJob:
        return Job(id=job_id)


def recorded_verdict(run: RunDetail) -> Verdict:
    """Return the verdict that a run got; a run without one was simply allowed."""
    judged = run.facets.get("policy")
    if not isinstance(judged, dict):
        return Verdict(ruling=Ruling.ALLOW)
    return msgspec.convert(judged, Verdict)
