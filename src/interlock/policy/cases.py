"""The cases of a policy: requests with the verdicts expected for them."""

from collections.abc import Iterator, Mapping

import msgspec

from interlock.fields.field import copy_fields
from interlock.fields.secret import has_secret
from interlock.model.job import Job
from interlock.model.policy.document import Case
from interlock.model.policy.verdict import PolicyRequest, Verdict
from interlock.policy.policy import Policy
from interlock.policy.velocity import Windows


class CaseOutcome(msgspec.Struct, frozen=True):
    case: Case
    verdict: Verdict

    @property
    def passed(self) -> bool:
        return self.verdict.ruling is self.case.expect and self.case.rule in (None, self.verdict.rule)


def request_of(case: Case, jobs: Mapping[str, Job]) -> PolicyRequest:
    """Return the request of a case; what it leaves out comes from its job, if that is declared."""
    job = jobs.get(case.job) or Job(id=case.job)
    payload = case.payload if case.payload is not None else job.payload or {}
    own = {name: value for name in PolicyRequest.__struct_fields__ if (value := getattr(case, name, None)) is not None}
    own |= {"topic": case.topic or job.policy_topic, "session": case.session, "origin": None, "behind": ()}
    own["lane"] = case.lane or job.lanes[1]
    own |= {"labels": job.with_labels(case.labels) or {}}
    data = msgspec.json.encode(payload)
    own |= {"job_version": job.version, "payload": data, "secrets": case.secrets or has_secret(data, job.secrets)}
    return copy_fields(PolicyRequest, job, **own)


def run_cases(policy: Policy, jobs: Mapping[str, Job]) -> Iterator[CaseOutcome]:
    """Judge each case by itself, as often at once as it says."""
    for case in policy.document.cases:
        request, windows = request_of(case, jobs), Windows()
        for _ in range(case.times - 1):
            policy.judge(request, windows, 0.0)
        yield CaseOutcome(case, policy.judge(request, windows, 0.0))
