"""Conditions in CEL: types, bounds, and requests for which there is no answer."""

import sys
from typing import Any

import msgspec
import pytest

from interlock.error import MissingLibrary
from interlock.model.policy.document import PolicyDocument, Rule
from interlock.model.policy.verdict import PolicyRequest, Ruling, Verdict
from interlock.policy import expression
from interlock.policy.expression import BadExpression, compiled
from interlock.policy.policy import Policy
from tests.policy.test_rules import judged as judge

pytestmark = pytest.mark.behaviour("POL-2")

REQUEST: dict[str, Any] = {
    "job": "pay", "topic": "billing.pay", "tenant": "acme", "actor": "ann", "priority": "batch", "lane": "main",
    "session": "s", "capabilities": ("network",), "risk_tags": ("pii",), "requires": ("gpu",),
    "labels": {"env": "prod"}, "secrets": True,
}  # fmt: skip


def judged(when: str, payload: Any = None, **more: Any) -> Verdict:
    policy = Policy(PolicyDocument(id="p", rules=(Rule(id="a", when=when, decision=Ruling.ALLOW),)))
    data = more.pop("data", None) or msgspec.json.encode({} if payload is None else payload)
    return judge(policy, PolicyRequest(**REQUEST | {"payload": data} | more))


@pytest.mark.parametrize(
    "when",
    [
        "job == 'pay'",
        "topic.startsWith('billing.')",
        "tenant in ['acme', 'other']",
        "actor.matches('^a[n]+$')",
        "priority != 'critical' && lane == 'main' && session == 's'",
        "'network' in capabilities && 'pii' in risk_tags && 'gpu' in requires",
        "labels['env'] == 'prod' && !('team' in labels)",
        "secrets",
        "payload.amount > 10 && payload.amount < 12.5",
        "payload.to.country in ['CH', 'FR']",
        "payload.items.all(one, one.price < 100) && size(payload.items) == 2",
        "payload.items.exists_one(one, has(one.price) && one.price > 2)",
        "payload['to'].country.matches('^[A-Z]{2}$') && payload.items[0].price + payload.amount == 13",
        "payload.flag",
        "has(payload.missing) ? payload.missing : true",
        "payload_size > 50",
        "payload.big > 5",
    ],
)
def test_what_an_expression_knows(when: str) -> None:
    payload = {
        "amount": 12, "to": {"country": "CH"}, "items": [{"price": 1}, {"price": 2.5}], "flag": True, "big": 10**30,
    }  # fmt: skip
    assert judged(when, payload) == Verdict(ruling=Ruling.ALLOW, rule="a", reason="rule 'a'")
    assert judged(f"!({when})", payload).rule == ""


def test_a_run_without_a_session_has_an_empty_one() -> None:
    assert judged("session == ''", session=None).rule == "a"


@pytest.mark.parametrize(
    ("when", "says"),
    [
        ("tenant == 1", "no matching overload"),
        ("tenant ==", "Syntax error"),
        ("tennant == 'a'", "undeclared reference to 'tennant'"),
        ("size(tenant)", "is of type int, not bool"),
        ("labels.env", "is of type string, not bool"),
        ("labels['env'] > 5", "no matching overload"),
        ("payload.xs.all(x, payload.ys.exists(y, y == x))", "a loop inside a loop"),
        ("payload.xs.all(x, payload.ys.exists // a remark\n(y, y == x))", "inside a loop"),
        ("payload.xs.filter(x, x > 1).size() > 0", "uses map or filter, which are not supported"),
        ("payload.xs.filter(x, x.exists(y, y > 1)).size() > 0", "not supported|a loop inside a loop"),
        ("[payload.s].map(a, a + a).map(b, b + b).size() > 0", "uses map or filter, which are not supported"),
        ("payload.xs.all(x, x in payload.xs)", "payload inside a loop"),
        ("tenant.matches(payload.name)", "the pattern must be a text in the expression itself"),
        ("matches(payload.name, 'a' + 'b')", "the pattern must be a text in the expression itself"),
        ("payload.name.matches('(a')", "matches: missing \\)"),
        ("payload.name.matches('((a{1,10}){1,10}){1,10}b')", "the pattern takes 2,224 instructions; at most 100"),
        ("(" * 100 + "true" + ")" * 100, "recursion limit"),
    ],
)
def test_what_is_refused_when_a_policy_is_read(when: str, says: str) -> None:
    with pytest.raises(BadExpression, match=says):
        compiled(when)


def test_text_that_looks_like_a_loop_is_none() -> None:
    assert judged("payload.xs.all(x, x != '.all(payload)')", {"xs": ["a"]}).rule == "a"


@pytest.mark.parametrize(
    ("when", "payload", "says"),
    [
        ("payload.amount > 1", {}, 'there is no "amount"'),
        ("payload.amount > 1", {"amount": "hunter2"}, "the types do not fit: _>_(string, int64)"),
        ("payload.amount", {"amount": 5}, "it is of type int, not bool"),
        ("labels[payload.name] == 'x'", {"name": "hunter2"}, "a key is missing"),
        ("1 / payload.n > 1", {"n": 0}, "divide by zero"),
    ],
)
def test_no_answer_is_no_match_and_is_noted_without_values(when: str, payload: Any, says: str) -> None:
    verdict = judged(when, payload)
    assert verdict == Verdict(
        ruling=Ruling.DENY, reason="no rule matches", notes=(f"rule 'a' could not be evaluated: {says}",)
    )
    assert "hunter2" not in verdict.notes[0]


def test_notes_come_with_the_verdict_of_a_later_rule() -> None:
    rules = (
        Rule(id="a", when="payload.amount > 1", decision=Ruling.DENY),
        Rule(id="b", when="payload.other > 1", decision=Ruling.DENY),
        Rule(id="c", decision=Ruling.ALLOW),
    )
    verdict = Policy(PolicyDocument(id="p", rules=rules)).judge(PolicyRequest(job="a", topic="a"), None, 0.0)
    assert (verdict.ruling, verdict.rule, len(verdict.notes)) == (Ruling.ALLOW, "c", 2)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"nonsense", "could not be evaluated"),
        (b"[" * 5000 + b"]" * 5000, "could not be evaluated"),
        (b'{"a":' * 600 + b"1" + b"}" * 600 + b" " * 10 + b"", ""),
        (b'{"a":' * 600 + b"9" * 30 + b"}" * 600, "nested too deep"),
    ],
)
def test_payloads_that_are_hard_to_read(data: bytes, says: str) -> None:
    verdict = judged("payload.a == 1", data=data)
    assert verdict.ruling is Ruling.DENY
    assert says in "".join((verdict.reason, *verdict.notes))


SUM = "its cost and that of the rules before it would exceed 10,000,000"


@pytest.mark.parametrize(
    ("when", "payload", "says"),
    [
        ("payload.a == ''", {"a": "x" * 32_767}, "it reads 32,769 bytes of the payload; at most 32,768 are allowed"),
        ("size(payload) == 0", {"a": "x" * 40_000}, "it reads 40,008 bytes of the payload; at most 32,768"),
        ("payload[tenant] == 1", {"a": "x" * 40_000}, "it reads 40,008 bytes of the payload; at most 32,768"),
        ("payload.xs.all(x, x == 1)", {"xs": [1] * 10_001}, "its loops take more than 10,000 turns"),
        ("payload.xs.all(x, x == 1 " + "&& x == 1" * 100 + ")", {"xs": [1] * 8000}, SUM),
        ("5 in (" + "+".join(["payload.xs"] * 20) + ")", {"xs": [1] * 2000}, SUM),
        ("payload.xs.exists(x, x.matches('^b$'))", {"xs": ["a"] * 1000}, SUM),
        ("payload.xs.exists(x, labels['env'] != 'prod')", {"xs": [1] * 2000}, SUM),
        ("payload.xs.exists(x, x in [" + "2," * 300 + "])", {"xs": [1] * 1000}, SUM),
        ("payload.xs.exists(x, timestamp('2020-01-01T00:00:00Z').getFullYear('UTC') == x)", {"xs": [1] * 8000}, SUM),
    ],
)
def test_a_request_whose_expression_would_hold_up_the_scheduler_is_denied(when: str, payload: Any, says: str) -> None:
    rules = Rule(id="a", when=when, decision=Ruling.DENY), Rule(id="b", decision=Ruling.ALLOW)
    data = msgspec.json.encode(payload)
    verdict = judge(Policy(PolicyDocument(id="p", rules=rules)), PolicyRequest(**REQUEST | {"payload": data}))
    assert (verdict.ruling, verdict.rule) == (Ruling.DENY, "a")
    assert verdict.reason.startswith(f"its expression could not be evaluated: {says}")


@pytest.mark.parametrize(
    "when",
    [
        "payload.n > 4 && !has(payload.missing) && payload['m'] == 'x'",
        "payload.a_long_one == 1",
        "topic.matches('^billing') && payload_size > 900000",
    ],
)
def test_only_the_fields_that_an_expression_reads_count(when: str) -> None:
    text = "x" * 900_000
    verdict = judged(when, {"text": text, "n": 5, "m": "x", "a_long_one": 1, "more": [1] * 30_000})
    assert (verdict.ruling, verdict.rule, verdict.notes) == (Ruling.ALLOW, "a", ())


def test_the_rules_of_one_verdict_share_a_bound() -> None:
    rules = tuple(
        Rule(id=f"r{place}", when=f"payload.xs.exists(x, x == {place + 2})", decision=Ruling.DENY)
        for place in range(1000)
    )
    policy = Policy(PolicyDocument(id="p", rules=(*rules, Rule(id="last", decision=Ruling.ALLOW))))
    few, many = (PolicyRequest(job="a", topic="a", payload=b'{"xs":[%b1]}' % (b"1," * n)) for n in (10, 2000))
    assert judge(policy, few).rule == "last"
    assert judge(policy, many).ruling is Ruling.DENY
    assert SUM in judge(policy, many).reason


def test_without_the_library_only_expressions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    expression._environment.cache_clear()
    compiled.cache_clear()
    try:
        with pytest.raises(MissingLibrary, match=r"pip install 'interlock\[policy\]'"):
            compiled("tenant == 'a'")
        Policy(PolicyDocument(id="p", rules=(Rule(id="a", decision=Ruling.ALLOW),)))
    finally:
        expression._environment.cache_clear()
