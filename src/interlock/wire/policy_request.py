"""The question for the policy in force."""

from typing import ClassVar

from interlock.model.policy.policy_info import PolicyInfo
from interlock.wire.operation import Http, Question


class AskPolicy(Question[PolicyInfo], frozen=True):
    """Show the policy. The rules in force with their verdicts since the scheduler started, and the digest."""

    http: ClassVar = Http("policy", "GET /policy", every_tenant="policies")
