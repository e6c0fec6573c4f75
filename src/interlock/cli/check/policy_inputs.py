"""What the commands on policies judge by, and what they judge: the policy in files, and requests rebuilt from the runs
that a server shows."""

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from functools import cache

import msgspec

from interlock.cli.shared.options import Flags
from interlock.cli.shared.output import WrongUsage
from interlock.client.http.client import Client
from interlock.config.sources import Loaded, load, of_app
from interlock.error import BadConfig, UnknownJob
from interlock.error_lines import say
from interlock.fields.field import copy_fields
from interlock.fields.safe_text import safe
from interlock.fields.secret import has_secret
from interlock.interface.run_view import RunDetail
from interlock.model.job import Job
from interlock.model.job_info import JobInfo
from interlock.model.policy.verdict import PolicyRequest, Ruling, Verdict
from interlock.model.run import all_submitters
from interlock.policy.policy import Policy

MASKED_NOTE = "note: secrets in payloads are masked, so rules that look at the payload may decide otherwise for the run"


def policy_of(flags: Flags, paths: Sequence[str] | None) -> tuple[Policy, dict[str, Job]]:
    """Return the policy of the files, and the jobs that they and the app declare."""
    settings = flags.given(files=paths or None).resolve().settings
    if not settings.files:
        raise WrongUsage("PATH: missing; give the file with the policy")
    with redirect_stdout(sys.stderr):  # the app's own output
        app = of_app(settings.app)
    loaded = load(settings.files, app, settings.strict)
    for warning in loaded.warnings:
        say(f"warning: {safe(warning)}")
    policy = required(loaded, settings.files)
    jobs = [*(definition.job for definition in app.definitions.values()), *(job.job for job in loaded.jobs)]
    return policy, {job.id: job for job in jobs}


def required(loaded: Loaded, files: Sequence[str]) -> Policy:
    if loaded.policy is None:
        raise BadConfig(f"{', '.join(files)}: no document has 'kind: Policy'")
    return loaded.policy


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
