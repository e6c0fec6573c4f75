"""The policy in force, as clients see it."""

from typing import Annotated, Any

import msgspec

from interlock.fields.field import doc
from interlock.model.policy.verdict import Ruling

Verdicts = Annotated[dict[str, int], doc("Verdicts since the scheduler started, by decision.")]


class RuleInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A rule of the policy in force."""

    id: Annotated[str, doc("Name.")]
    decision: Annotated[Ruling, doc("Decision.")]
    reason: Annotated[str, doc("Reason that people are shown.")]
    match: Annotated[dict[str, Any], doc("Conditions that it sets.")]
    when: Annotated[str | None, doc("Condition in CEL.")]
    verdicts: Verdicts


class PolicyInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The policy in force."""

    id: Annotated[str | None, doc("Name; null without a policy of this server.")]
    digest: Annotated[str | None, doc("Digest; null without a policy.")]
    remote: Annotated[bool, doc("Whether a policy service judges runs; then the server does not know the rules.")]
    default_decision: Annotated[Ruling | None, doc("Decision if no rule matches.")]
    rules: Annotated[list[RuleInfo], doc("Rules, checked top down; the first that matches decides.")]
    default_verdicts: Verdicts
