"""Requests to a policy, rebuilt from the runs that a server shows."""

from collections.abc import Mapping
from functools import cache

import msgspec

from interlock.client.http.client import Client
from interlock.model.error import UnknownJob
from interlock.model.job import Priority
from interlock.model.job_info import JobInfo
from interlock.model.policy import PolicyRequest, Ruling, Verdict
from interlock.model.run_view import RunDetail
from interlock.model.secret import MASK

MASKED_NOTE = "note: secrets in payloads are masked, so rules that look at the payload may decide otherwise for the run"


def request_of_run(client: Client, run: RunDetail) -> PolicyRequest:
    """Return the request of a recorded run; tags come from its job as it is now, if there is one."""
    job = _job(client, run.job_id)
    facets: Mapping[str, object] = run.facets
    labels, priority = facets.get("labels"), facets.get("priority")
    payload = msgspec.json.encode(run.payload)
    return PolicyRequest(
        job=run.job_id,
        topic=run.job_id if job is None else job.topic,
        tenant=run.tenant,
        actor=run.created_by,
        priority=str(priority or (Priority.INTERACTIVE if job is None else job.priority)),
        lane=run.lane,
        session=run.session,
        origin=None if run.origin == "submit" else run.origin,
        capabilities=() if job is None else job.capabilities,
        risk_tags=() if job is None else job.risk_tags,
        requires=() if job is None else job.requires,
        labels={str(name): str(value) for name, value in labels.items()} if isinstance(labels, dict) else {},
        job_version=run.job_version,
        payload=payload,
        secrets=MASK.encode() in payload,
    )


@cache
def _job(client: Client, job_id: str) -> JobInfo | None:
    try:
        return client.job(job_id)
    except UnknownJob:
        return None


def is_masked(request: PolicyRequest) -> bool:
    return request.secrets


def recorded_verdict(run: RunDetail) -> Verdict:
    """Return the verdict that a run got; a run without one was simply allowed."""
    judged = run.facets.get("policy")
    if not isinstance(judged, dict):
        return Verdict(ruling=Ruling.ALLOW)
    known = {name: judged[name] for name in Verdict.__struct_fields__ if name in judged}
    return msgspec.convert(known, Verdict)
