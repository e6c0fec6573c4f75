"""Why a policy decides as it does: the rules up to the one that matches, and the lists and filters after it."""

from typing import Any

import msgspec

from interlock.fields.duration import brief, checked
from interlock.model.policy.verdict import STRICTNESS, PolicyRequest, Ruling, for_each_submitter
from interlock.policy.expression import RequestFacts, TooCostly, Unevaluated
from interlock.policy.policy import CompiledRule, Policy, RuleCondition


class Step(msgspec.Struct, frozen=True):
    """One step to the verdict."""

    place: str  # id of the rule, or `default`, `lists`
    decides: bool
    text: str


def explain(policy: Policy, request: PolicyRequest) -> list[Step]:
    """Return a step for each rule up to the one that matches, then one for the lists and filters if they refuse. No
    requests are counted here, so rules with a velocity do not match. If there are several submitters, explain the
    verdict for the one whom the policy allows least."""
    if request.behind:
        each = for_each_submitter(request)
        request = max(each, key=lambda request: STRICTNESS.index(policy.judge(request, None, 0.0).ruling))
    steps: list[Step] = []
    facts = RequestFacts(request)
    decided: CompiledRule | None = None
    for rule in policy.rules:
        try:
            failing = _failing(rule, request, facts)
        except TooCostly as error:
            return [*steps, Step(rule.rule.id, True, f"when: {rule.rule.when} could not be evaluated: {error}: deny")]
        steps.append(Step(rule.rule.id, not failing, failing or f"matches: {rule.rule.decision}"))
        if not failing:
            decided = rule
            break
    else:
        steps.append(Step("default", True, f"no rule matches: {policy.default.ruling}"))
    verdict = policy.default if decided is None else decided.verdict
    if verdict.ruling is not Ruling.DENY:
        tools = None if decided is None else decided.rule.tools
        steps += [Step("lists", True, f"{text}: deny") for text in policy.refusals(tools, request)]
    return steps


def _failing(compiled: CompiledRule, request: PolicyRequest, facts: RequestFacts) -> str:
    """Return the first condition that does not hold, in words; empty if all hold."""
    for condition in compiled.conditions:
        if not condition.holds(request):
            return _unmet(condition, request)
    if compiled.when is not None:
        try:
            if not compiled.when(facts):
                return f"when: {compiled.rule.when} is false"
        except Unevaluated as error:
            return f"when: {compiled.rule.when} could not be evaluated: {error}"
    velocity = compiled.rule.velocity
    if velocity is not None:
        per = f" with the same {velocity.key}" if velocity.key else ""
        window = brief(checked(velocity.window))
        return f"velocity: matches only after {velocity.max_requests:,} requests{per} within {window}"
    return ""


def _unmet(condition: RuleCondition, request: PolicyRequest) -> str:
    name, _, label = condition.field.partition(".")
    value: Any = len(request.payload) if name == "payload_size" else getattr(request, name)
    if label:
        value = value.get(label)
    wanted = condition.wanted
    return f"{condition.field}: {_shown(value)} does not fit {_shown(wanted)}"


def _shown(value: Any) -> str:
    if value is None or value in ((), ""):
        return "nothing"
    return ", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value).lower()
