"""Rules, the default, lists of tenants and filters of tools: a table of each."""

from itertools import product
from typing import Any

import pytest
from msgspec.structs import replace

from interlock.error import BadUse, MissingField
from interlock.model.policy.document import TOOL_LABELS, Match, PolicyDocument, Rule, TenantLists, ToolFilter
from interlock.model.policy.verdict import PolicyRequest, Ruling, RunLimits, Verdict
from interlock.policy.policy import Policy

REQUEST: dict[str, Any] = {
    "job": "pay", "topic": "billing.pay", "tenant": "acme", "actor": "ann@example.com", "priority": "batch",
    "capabilities": ("network", "money"), "risk_tags": ("pii",), "requires": ("gpu", "vault"),
    "labels": {"env": "production", "team": "core"}, "payload": b'{"amount": 12}',
}  # fmt: skip
"""a request in which every field has a value"""


def request(**more: Any) -> PolicyRequest:
    return PolicyRequest(**REQUEST | more)


def policy_of(*rules: Rule, **more: Any) -> Policy:
    return Policy(PolicyDocument(id="p", rules=rules, **more))


def judged(policy: Policy, asked: PolicyRequest | None = None) -> Verdict:
    """The verdict, without the digest, which every verdict has."""
    verdict = policy.judge(asked or request(), None, 0.0)
    assert verdict.policy == policy.digest
    return replace(verdict, policy="")


@pytest.mark.behaviour("POL-2")
@pytest.mark.parametrize(
    ("field", "fits", "differs"),
    [
        ("tenants", ["acme"], ["other"]),
        ("tenants", ["other", "ac*"], ["ACME"]),
        ("topics", ["billing.pay"], ["billing"]),
        ("topics", ["billing.*"], ["billing.*.x"]),
        ("topics", ["*"], ["pay"]),
        ("topics", ["other", "*.p?y"], ["*.p?"]),
        ("topics", ["[ab]illing.pay"], ["[!b]illing.pay"]),
        ("capabilities", ["money", "files"], ["files"]),
        ("risk_tags", ["pii", "other"], ["other"]),
        ("requires", ["gpu", "vault"], ["gpu", "disk"]),
        ("requires", ["gpu"], ["disk"]),
        ("labels", {"env": "production"}, {"env": "test"}),
        ("labels", {"env": "prod*", "team": "*"}, {"env": "prod*", "team": "other"}),
        ("labels", {"team": "core"}, {"missing": "*"}),
        ("actors", ["*@example.com"], ["*@example.org"]),
        ("actors", ["ann@example.com"], ["ann"]),
        ("priority", ["critical", "batch"], ["critical", "interactive"]),
        ("payload_over", 13, 14),
        ("secrets", False, True),
    ],
)
def test_each_condition(field: str, fits: Any, differs: Any) -> None:
    for value, expected in ((fits, Ruling.ALLOW), (differs, Ruling.DENY)):
        rule = Rule(id="a", match=Match(**{field: value}), decision=Ruling.ALLOW)
        assert judged(policy_of(rule)).ruling is expected
    # An empty list is no condition.
    if isinstance(fits, list | dict):
        empty: Any = type(fits)()
        rule = Rule(id="a", match=Match(**{field: empty}), decision=Ruling.ALLOW)
        assert judged(policy_of(rule)).rule == "a"


@pytest.mark.behaviour("POL-2")
def test_all_conditions_of_a_rule_must_hold() -> None:
    fitting: dict[str, Any] = {
        "tenants": ["acme"], "topics": ["billing.*"], "capabilities": ["money"], "risk_tags": ["pii"],
        "requires": ["gpu"], "labels": {"env": "production"}, "actors": ["ann*"], "priority": ["batch"],
        "payload_over": 5, "secrets": False,
    }  # fmt: skip
    assert set(fitting) == set(Match.__struct_fields__)
    others: dict[str, Any] = {
        "tenants": "z", "topics": "z", "capabilities": (), "risk_tags": (), "requires": (), "labels": {}, "actors": "z",
        "priority": "critical", "payload_over": b"{}", "secrets": True,
    }  # fmt: skip
    names = {"tenants": "tenant", "topics": "topic", "actors": "actor", "payload_over": "payload"}
    policy = policy_of(Rule(id="a", match=Match(**fitting), decision=Ruling.ALLOW))
    assert judged(policy).ruling is Ruling.ALLOW
    for field, value in others.items():
        assert judged(policy, request(**{names.get(field, field): value})).ruling is Ruling.DENY


@pytest.mark.behaviour("POL-2")
def test_the_first_rule_that_matches_decides() -> None:
    rules = [Rule(id=one, decision=Ruling(one), limits=LIMITS if one == Ruling.CONSTRAIN else None) for one in Ruling]
    for first in rules:
        policy = policy_of(Rule(id="z", match=Match(topics=["z"]), decision=Ruling.DENY), first, *rules)
        assert judged(policy) == Verdict(
            ruling=first.decision, rule=first.id, reason=f"rule {first.id!r}", limits=first.limits
        )
    assert judged(policy_of(Rule(id="a", decision=Ruling.DENY, reason="not today"))).reason == "not today"


LIMITS = RunLimits(max_runtime="5m", max_retries=0, max_output=1_000_000, environment=("AWS_*",))


def test_limits_belong_to_one_decision() -> None:
    rule = Rule(id="a", decision=Ruling.CONSTRAIN, limits=LIMITS)
    limits = judged(policy_of(rule)).limits
    assert limits is not None
    assert (limits.max_runtime, limits.max_output, limits.environment) == (300.0, 1_000_000, ("AWS_*",))
    with pytest.raises(MissingField):
        Rule(id="a", decision=Ruling.CONSTRAIN)
    for ruling in set(Ruling) - {Ruling.CONSTRAIN}:
        with pytest.raises(BadUse):
            Rule(id="a", decision=ruling, limits=LIMITS)


@pytest.mark.behaviour("POL-3")
@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, "deny"), ({"default_decision": ""}, "deny"), ({"default_decision": None}, "deny"),
     *(({"default_decision": one}, one) for one in ("allow", "deny", "require_approval", "throttle"))],
)  # fmt: skip
def test_the_default(given: dict[str, Any], expected: str) -> None:
    verdict = judged(policy_of(Rule(id="z", match=Match(topics=["z"]), decision=Ruling.ALLOW), **given))
    assert verdict == Verdict(ruling=Ruling(expected), reason="no rule matches")


NAMES = ("servers", "tools", "resources", "actions")


@pytest.mark.behaviour("POL-6")
@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize(
    ("allow", "deny", "value", "passes"),
    [
        ([], [], "git", True),
        (["git"], [], "git", True),
        (["g*"], [], "git", True),
        (["svn"], [], "git", False),
        ([], ["git"], "git", False),
        ([], ["g*"], "git", False),
        ([], ["svn"], "git", True),
        (["git"], ["git"], "git", False),  # deny wins
        (["*"], ["git"], "git", False),
        (["git"], ["svn"], "git", True),
        (["git"], [], None, False),  # the call does not say what it is
        ([], ["git"], None, True),
        ([], ["*"], None, True),
    ],
)
@pytest.mark.parametrize("place", ["policy", "tenant", "rule"])
def test_each_filter_of_tools(
    names: str, allow: list[str], deny: list[str], value: str | None, passes: bool, place: str
) -> None:
    tools = ToolFilter(**{f"allow_{names}": allow, f"deny_{names}": deny})
    rule = Rule(id="a", decision=Ruling.ALLOW, tools=tools if place == "rule" else None)
    policy = policy_of(
        rule,
        tools=tools if place == "policy" else None,
        tenants={"acme": TenantLists(tools=tools)} if place == "tenant" else {},
    )
    other = next(TOOL_LABELS[one] for one in NAMES if one != names)
    labels = {other: "x"} | ({} if value is None else {TOOL_LABELS[names]: value})
    verdict = judged(policy, request(labels=labels))
    assert verdict.ruling is (Ruling.ALLOW if passes else Ruling.DENY)
    if not passes:
        assert f"{'deny' if deny else 'allow'}_{names}" in verdict.reason
        assert repr(value) in verdict.reason if value is not None else f"names no {names[:-1]}" in verdict.reason
        assert verdict.rule == ("a" if place == "rule" else "")
    # A request without such labels is no tool call.
    assert judged(policy, request(labels={"env": "x"})).ruling is Ruling.ALLOW


@pytest.mark.behaviour("POL-6")
@pytest.mark.parametrize(
    ("allow", "deny", "passes"),
    [
        ([], [], True),
        (["billing.*"], [], True),
        (["other"], [], False),
        ([], ["billing.*"], False),
        ([], ["other"], True),
        (["*"], ["billing.pay"], False),
    ],
)
def test_lists_of_a_tenant(allow: list[str], deny: list[str], passes: bool) -> None:
    policy = policy_of(
        Rule(id="a", decision=Ruling.ALLOW), tenants={"acme": TenantLists(allow_topics=allow, deny_topics=deny)}
    )
    verdict = judged(policy)
    assert verdict.ruling is (Ruling.ALLOW if passes else Ruling.DENY)
    assert passes or "tenants.acme" in verdict.reason
    assert passes or "'billing.pay'" in verdict.reason
    assert judged(policy, request(tenant="other")).ruling is Ruling.ALLOW


@pytest.mark.behaviour("POL-6")
@pytest.mark.parametrize(("ruling", "refuses"), [*product(Ruling, (True, False))])
def test_a_list_turns_every_decision_into_deny_and_changes_nothing_else(ruling: Ruling, refuses: bool) -> None:
    limits = LIMITS if ruling is Ruling.CONSTRAIN else None
    rule = Rule(id="a", decision=ruling, limits=limits)
    lists = TenantLists(deny_topics=["billing.*" if refuses else "other"])
    plain, narrowed = judged(policy_of(rule)), judged(policy_of(rule, tenants={"acme": lists}))
    if refuses and ruling is not Ruling.DENY:
        assert (narrowed.ruling, narrowed.rule, narrowed.limits) == (Ruling.DENY, "", None)
    else:
        assert narrowed == plain


@pytest.mark.parametrize(
    ("match", "when", "needs"),
    [({}, None, False), ({"topics": ["a"]}, None, False), ({"payload_over": 5}, None, True),
     ({"secrets": False}, None, True), ({}, "tenant == 'a'", True)],
)  # fmt: skip
def test_whether_it_looks_at_payloads(match: dict[str, Any], when: str | None, needs: bool) -> None:
    policy = policy_of(Rule(id="a", match=Match(**match), when=when, decision=Ruling.ALLOW))
    assert policy.needs_payload is needs


def test_what_is_kept_for_values_is_bounded() -> None:
    policy = policy_of(Rule(id="a", match=Match(topics=["t*"]), decision=Ruling.ALLOW))
    for number in range(10_000):
        assert judged(policy, request(topic=f"t{number}", tenant=f"{number}")).ruling is Ruling.ALLOW
    assert all(len(values.kept) <= 4096 for _, values in policy._index._single)
