"""The index against a slow model that walks the rules top down; lists and filters never loosen a verdict."""

from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from interlock.model.policy.document import TOOL_LABELS, Match, PolicyDocument, Rule, TenantLists, ToolFilter, Velocity
from interlock.model.policy.verdict import PolicyRequest, Ruling
from interlock.policy.policy import Policy
from interlock.policy.velocity import Windows
from tests.policy.test_rules import LIMITS

WORDS = ["a", "b", "ab", "ab.c", "ab.cd", "b.a", "B", "[a", "é"]
GLOBS = [*WORDS, "*", "a*", "ab*", "ab.*", "*c", "?", "a?", "[ab]", "[!a]*", "ab.c?", "**"]
TAGS = ["x", "y", "z"]
WORD, GLOB = st.sampled_from(WORDS), st.lists(st.sampled_from(GLOBS), max_size=3)
SOME = st.lists(st.sampled_from(TAGS), max_size=2, unique=True)
MATCH = st.fixed_dictionaries(
    {},
    optional={
        "tenants": GLOB, "topics": GLOB, "actors": GLOB, "capabilities": SOME, "risk_tags": SOME, "requires": SOME,
        "labels": st.dictionaries(st.sampled_from(["l", "m"]), st.sampled_from(GLOBS), max_size=2),
        "priority": st.lists(st.sampled_from(["critical", "interactive", "batch"]), max_size=2),
        "payload_over": st.sampled_from([0, 2, 3]), "secrets": st.booleans(),
    },
)  # fmt: skip
BODY = st.tuples(MATCH, st.sampled_from(Ruling), st.sampled_from([None, None, None, 1, 2]))
TOOLS = st.none() | st.builds(
    ToolFilter, **{f"{verb}_{name}": GLOB.map(tuple) for verb in ("allow", "deny") for name in TOOL_LABELS}
)
LISTS = st.builds(TenantLists, allow_topics=GLOB.map(tuple), deny_topics=GLOB.map(tuple), tools=TOOLS)
REQUESTS = st.builds(
    PolicyRequest,
    job=WORD, topic=WORD, tenant=WORD, actor=WORD, priority=st.sampled_from(["critical", "interactive", "batch"]),
    capabilities=SOME.map(tuple), risk_tags=SOME.map(tuple), requires=SOME.map(tuple), secrets=st.booleans(),
    labels=st.dictionaries(st.sampled_from(["l", "m", *TOOL_LABELS.values()]), WORD, max_size=3),
    payload=st.sampled_from([b"{}", b'{"a":1}']),
)  # fmt: skip


def rules_of(bodies: list[tuple[dict[str, Any], Ruling, int | None]]) -> tuple[Rule, ...]:
    return tuple(
        Rule(
            id=f"r{place}",
            match=Match(**match),
            decision=ruling,
            limits=LIMITS if ruling is Ruling.CONSTRAIN else None,
            velocity=None if most is None else Velocity(max_requests=most, window=10.0, key="tenant"),
        )
        for place, (match, ruling, most) in enumerate(bodies)
    )


class SlowPolicy:
    """The same, obviously right: every rule and every condition, one after the other."""

    def __init__(self, document: PolicyDocument) -> None:
        self.document = document
        self.seen: dict[tuple[str, str], list[float]] = {}

    def judge(self, request: PolicyRequest, now: float) -> tuple[Ruling, str]:
        found = next((rule for rule in self.document.rules if self.matches(rule, request, now)), None)
        ruling = self.document.default_decision if found is None else found.decision
        lists = self.document.tenants.get(request.tenant, TenantLists())
        refused = not passes(lists.allow_topics, lists.deny_topics, request.topic)
        for tools in (lists.tools, self.document.tools, None if found is None else found.tools):
            refused = refused or (tools is not None and self.refuses(tools, request))
        return (Ruling.DENY, "") if refused and ruling is not Ruling.DENY else (ruling, found.id if found else "")

    def matches(self, rule: Rule, request: PolicyRequest, now: float) -> bool:
        match = rule.match
        holds = [
            any_fits(match.tenants, request.tenant) or not match.tenants,
            any_fits(match.topics, request.topic) or not match.topics,
            any_fits(match.actors, request.actor) or not match.actors,
            bool(set(match.capabilities) & set(request.capabilities)) or not match.capabilities,
            bool(set(match.risk_tags) & set(request.risk_tags)) or not match.risk_tags,
            set(match.requires) <= set(request.requires),
            all(
                name in request.labels and fnmatchcase(request.labels[name], one) for name, one in match.labels.items()
            ),
            request.priority in match.priority or not match.priority,
            match.payload_over is None or len(request.payload) > match.payload_over,
            match.secrets is None or request.secrets == match.secrets,
        ]
        if not all(holds) or rule.velocity is None:
            return all(holds)
        seen = self.seen.setdefault((rule.id, request.tenant), [])
        if len([one for one in seen if one > now - 10.0]) >= rule.velocity.max_requests:
            return True
        seen.append(now)
        return False

    def refuses(self, tools: ToolFilter, request: PolicyRequest) -> bool:
        if not set(TOOL_LABELS.values()) & set(request.labels):
            return False
        return not all(
            passes(getattr(tools, f"allow_{name}"), getattr(tools, f"deny_{name}"), request.labels.get(label))
            for name, label in TOOL_LABELS.items()
        )


def any_fits(globs: Any, value: str) -> bool:
    return any(fnmatchcase(value, glob) for glob in globs)


def passes(allow: Any, deny: Any, value: str | None) -> bool:
    if value is None:
        return not allow
    return not any_fits(deny, value) and (not allow or any_fits(allow, value))


@pytest.mark.behaviour("POL-2", "POL-5", "POL-6")
@given(
    bodies=st.lists(BODY, max_size=12),
    default=st.sampled_from(["allow", "deny", "throttle"]),
    lists=st.dictionaries(WORD, LISTS, max_size=2),
    tools=TOOLS,
    asked=st.lists(st.tuples(REQUESTS, st.sampled_from([0.0, 1.0, 9.0, 10.0])), min_size=1, max_size=8),
)
def test_the_index_gives_the_verdict_of_a_walk_from_the_top(
    bodies: Any, default: str, lists: Any, tools: ToolFilter | None, asked: list[tuple[PolicyRequest, float]]
) -> None:
    document = PolicyDocument(
        id="p", rules=rules_of(bodies), default_decision=Ruling(default), tenants=lists, tools=tools
    )
    policy, slow, windows, now = Policy(document), SlowPolicy(document), Windows(), 0.0
    for request, later in asked:
        now += later
        verdict = policy.judge(request, windows, now)
        assert (verdict.ruling, verdict.rule) == slow.judge(request, now)


STRICTNESS = {one: place for place, one in enumerate(Ruling)}


@pytest.mark.behaviour("POL-6")
@given(bodies=st.lists(BODY, max_size=6), lists=LISTS, tools=TOOLS, request=REQUESTS)
def test_a_list_or_a_filter_never_loosens_a_verdict(
    bodies: Any, lists: TenantLists, tools: ToolFilter | None, request: PolicyRequest
) -> None:
    rules = rules_of(bodies)
    plain = Policy(PolicyDocument(id="p", rules=rules))
    strict = Policy(PolicyDocument(id="p", rules=rules, tenants={request.tenant: lists}, tools=tools))
    before, after = (replace(one.judge(request, Windows(), 0.0), policy="") for one in (plain, strict))
    assert after == before or after.ruling is Ruling.DENY
    assert STRICTNESS[after.ruling] >= STRICTNESS[before.ruling]
