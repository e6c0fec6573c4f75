"""Explanations, differences between policies, and hashes."""

from typing import Any

import pytest
from msgspec.structs import replace

from interlock.model.policy.document import Case, Match, PolicyDocument, Rule, TenantLists, ToolFilter, Velocity
from interlock.model.policy.verdict import PolicyRequest, Ruling
from interlock.policy.explain import explain
from interlock.policy.policy import Policy, request_hash
from tests.policy.test_rules import REQUEST, policy_of, request

pytestmark = pytest.mark.behaviour("POL-12")


@pytest.mark.parametrize(
    ("match", "says"),
    [
        ({"tenants": ["other", "z*"]}, "tenant: acme does not fit other, z*"),
        ({"topics": ["a.*"]}, "topic: billing.pay does not fit a.*"),
        ({"actors": ["bob"]}, "actor: ann@example.com does not fit bob"),
        ({"priority": ["critical"]}, "priority: batch does not fit critical"),
        ({"secrets": True}, "secrets: false does not fit true"),
        ({"payload_over": 1000}, "payload_size: 14 does not fit over 1,000"),
        ({"capabilities": ["files"]}, "capabilities: network, money does not fit files"),
        ({"risk_tags": ["x", "y"]}, "risk_tags: pii does not fit x, y"),
        ({"requires": ["gpu", "disk"]}, "requires: gpu, vault does not fit gpu, disk"),
        ({"labels": {"env": "test"}}, "labels.env: production does not fit test"),
        ({"labels": {"a.b": "test"}}, "labels.a.b: nothing does not fit test"),
    ],
)
def test_each_condition_that_fails_is_named_with_its_values(match: dict[str, Any], says: str) -> None:
    policy = policy_of(
        Rule(id="a", match=Match(**match), decision=Ruling.DENY), Rule(id="b", decision=Ruling.ALLOW, reason="fine")
    )
    first, second = explain(policy, request())
    assert (first.place, first.decides, first.text) == ("a", False, says)
    assert (second.place, second.decides, second.text) == ("b", True, "matches: allow")


@pytest.mark.behaviour("RUN-26")
def test_of_several_submitters_the_one_who_may_do_least_is_explained() -> None:
    policy = policy_of(Rule(id="a", match=Match(actors=["bob"]), decision=Ruling.DENY), default_decision=Ruling.ALLOW)
    (step,) = explain(policy, request(behind=("carl", "bob")))
    assert (step.place, step.decides, step.text) == ("a", True, "matches: deny")


def test_an_expression_that_costs_too_much_decides() -> None:
    policy = policy_of(Rule(id="a", when="payload.a == ''", decision=Ruling.ASK), Rule(id="b", decision=Ruling.ALLOW))
    (step,) = explain(policy, request(payload=b'{"a":"%b"}' % (b"x" * 40_000)))
    assert (step.place, step.decides) == ("a", True)
    assert step.text == (
        "when: payload.a == '' could not be evaluated: it reads 40,002 bytes of the payload; "
        "at most 32,768 are allowed: deny"
    )


def test_expressions_velocities_the_default_lists_and_filters() -> None:
    policy = policy_of(
        Rule(id="a", when="payload.amount > 100", decision=Ruling.DENY),
        Rule(id="b", when="payload.other > 100", decision=Ruling.DENY),
        Rule(id="c", velocity=Velocity(max_requests=5, window="1m", key="actor"), decision=Ruling.THROTTLE),
        default_decision=Ruling.ALLOW,
        tenants={"acme": TenantLists(deny_topics=["billing.*"])},
        tools=ToolFilter(allow_tools=["read"]),
    )
    assert [(one.place, one.decides, one.text) for one in explain(policy, request(labels={"mcp.tool": "rm"}))] == [
        ("a", False, "when: payload.amount > 100 is false"),
        ("b", False, 'when: payload.other > 100 could not be evaluated: there is no "other"'),
        ("c", False, "velocity: matches only after 5 requests with the same actor within 60s"),
        ("default", True, "no rule matches: allow"),
        ("lists", True, "tenants.acme: deny_topics has 'billing.*', which fits the topic 'billing.pay': deny"),
        ("lists", True, "tools: allow_tools does not have the tool 'rm': deny"),
    ]


def test_the_digest_of_a_policy_changes_with_everything_but_its_cases() -> None:
    rule = Rule(id="a", decision=Ruling.ALLOW)
    document = PolicyDocument(id="p", rules=(rule,))
    case = Case(name="c", job="a", expect=Ruling.ALLOW)
    digest = Policy(document).digest
    assert len(digest) == 16
    assert Policy(replace(document, cases=(case,))).digest == digest
    others = [
        replace(document, id="q"),
        replace(document, default_decision=Ruling.ALLOW),
        replace(document, rules=(replace(rule, reason="x"),)),
        replace(document, rules=(rule, replace(rule, id="b"))),
        replace(document, rules=(replace(rule, id="b"), rule)),
        replace(document, tools=ToolFilter(allow_tools=("a",))),
        replace(document, tenants={"a": TenantLists()}),
    ]
    assert len({digest, *(Policy(one).digest for one in others)}) == len(others) + 1


def test_the_hash_of_a_request_covers_every_field_and_no_order() -> None:
    full = REQUEST | {"lane": "cron", "session": "s", "origin": "trigger", "job_version": "v"}
    full |= {"secrets": True, "behind": ("bob",)}
    assert set(full) == set(PolicyRequest.__struct_fields__)
    changed: dict[str, Any] = {name: "z" if isinstance(value, str) else type(value)() for name, value in full.items()}
    hashes = {request_hash(PolicyRequest(**full | {name: value})) for name, value in changed.items()}
    assert len(hashes | {request_hash(PolicyRequest(**full))}) == len(full) + 1
    one, two = b'{"a": 1, "b": {"c": 2, "d": []}}', b'{"b":{"d":[],"c":2},"a":1}'
    assert request_hash(request(payload=one)) == request_hash(request(payload=two))
    assert request_hash(request(labels={"a": "1", "b": "2"})) == request_hash(request(labels={"b": "2", "a": "1"}))
    assert request_hash(request(payload=b"\xff")) != request_hash(request(payload=b'"/w=="'))
