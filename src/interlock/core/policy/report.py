"""The policy in force, with its verdicts by rule."""

from collections.abc import Mapping

import msgspec

from interlock.core.policy.judge_state import Judging
from interlock.core.state import SchedulerState
from interlock.model.policy.document import Match, Rule
from interlock.model.policy.policy_info import PolicyInfo, RuleInfo

Counts = Mapping[tuple[str, ...], int]  # by rule and decision


def policy_info(state: SchedulerState, counts: Counts) -> PolicyInfo:
    judging, remote = state.of(Judging), state.limits.remote_policy
    document = None if remote or judging.policy is None else judging.policy.document
    verdicts: dict[str, dict[str, int]] = {}
    for (rule, decision), count in counts.items():
        verdicts.setdefault(rule, {})[decision] = count
    return PolicyInfo(
        id=None if document is None else document.id,
        digest=judging.digest or None,
        remote=remote,
        default_decision=None if document is None else document.default_decision,
        rules=[] if document is None else [_rule(rule, verdicts.get(rule.id, {})) for rule in document.rules],
        default_verdicts=verdicts.get("", {}),
    )


def _rule(rule: Rule, verdicts: dict[str, int]) -> RuleInfo:
    match = {name: value for name in Match.__struct_fields__ if (value := getattr(rule.match, name))}
    return RuleInfo(
        id=rule.id,
        decision=rule.decision,
        reason=rule.reason,
        match=msgspec.to_builtins(match),
        when=rule.when,
        verdicts=verdicts,
    )
