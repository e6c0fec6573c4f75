"""A compiled policy. Rules are checked top down, and the first that matches decides. An index by topic and tenant
leaves out rules that cannot match, and keeps the order of the rest."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from interlock.model.duration import checked
from interlock.model.policy import PolicyRequest, Ruling, Verdict
from interlock.model.policy_document import TOOL_LABELS, PolicyDocument, Rule, ToolFilter
from interlock.policy.digest import policy_digest
from interlock.policy.expression import Facts, Unevaluated, compiled
from interlock.policy.glob import beginning, first_match, is_exact, matcher
from interlock.policy.velocity import Windows

MOST_KEPT = 4096  # pairs of topic and tenant whose rules are remembered
NO_RULE = "no rule matches"
Test = Callable[[PolicyRequest], object]


class Condition(msgspec.Struct, frozen=True):
    """One condition of a rule: a field of the request, what the rule wants of it, and the test."""

    field: str
    wanted: Any
    holds: Test


class CompiledRule(msgspec.Struct, frozen=True, kw_only=True):
    rule: Rule
    conditions: tuple[Condition, ...]
    tests: tuple[Test, ...]  # of the conditions that the index does not cover
    when: Callable[[Facts], bool] | None
    key: Callable[[PolicyRequest], str]  # whose requests a velocity counts together
    verdict: Verdict


class Policy:
    """Rules that are ready to judge. It remembers nothing of requests but the rules for their topic and tenant."""

    def __init__(self, document: PolicyDocument) -> None:
        self.document = document
        self.id = document.id
        self.digest = policy_digest(document)
        self.rules = [_compiled(rule, self.digest) for rule in document.rules]
        self.needs_payload = any(
            one.when is not None or one.rule.match.payload_over is not None or one.rule.match.secrets is not None
            for one in self.rules
        )
        self.default = Verdict(ruling=document.default_decision, reason=NO_RULE, policy=self.digest)
        self._topics = _Index([rule.match.topics for rule in document.rules])
        self._tenants = _Index([rule.match.tenants for rule in document.rules])
        self._found: dict[tuple[str, str], Sequence[CompiledRule]] = {}

    def judge(self, request: PolicyRequest, windows: Windows | None, now: float) -> Verdict:
        """Return the verdict on a request. Without `windows` it is a run judged again: rules with a velocity do not
        match, and nothing is counted."""
        facts: Facts | None = None
        notes: list[str] = []
        for one in self._candidates(request):
            for test in one.tests:
                if not test(request):
                    break
            else:
                if one.when is not None:
                    facts = facts or Facts(request)
                    if not _evaluate(one, facts, notes):
                        continue
                if one.rule.velocity is not None and not _too_fast(one, request, windows, now):
                    continue
                return self._narrowed(one.verdict, one.rule.tools, request, notes)
        return self._narrowed(self.default, None, request, notes)

    def _candidates(self, request: PolicyRequest) -> Sequence[CompiledRule]:
        key = request.topic, request.tenant
        found = self._found.get(key)
        if found is None:
            if len(self._found) >= MOST_KEPT:
                self._found.clear()
            places = self._topics.places(request.topic) & self._tenants.places(request.tenant)
            found = self._found[key] = [self.rules[place] for place in _bits(places)]
        return found

    def _narrowed(
        self, verdict: Verdict, tools: ToolFilter | None, request: PolicyRequest, notes: Sequence[str]
    ) -> Verdict:
        """Turn the verdict into deny if a list of the tenant or a filter says so."""
        if verdict.ruling is not Ruling.DENY:
            for refused in self.refusals(tools, request):
                rule = verdict.rule if refused.startswith(OF_RULE) else ""
                verdict = Verdict(ruling=Ruling.DENY, rule=rule, reason=refused, policy=self.digest)
                break
        return msgspec.structs.replace(verdict, notes=tuple(notes)) if notes else verdict

    def refusals(self, tools: ToolFilter | None, request: PolicyRequest) -> Iterable[str]:
        """Yield why lists and filters refuse a request: those of its tenant, everybody's, and that of the rule."""
        lists = self.document.tenants.get(request.tenant)
        if lists is not None:
            name = f"tenants.{request.tenant}"
            yield from refused_by(name, "topics", lists.allow_topics, lists.deny_topics, "topic", request.topic)
            if lists.tools is not None:
                yield from refused_call(f"{name}.tools", lists.tools, request)
        if self.document.tools is not None:
            yield from refused_call("tools", self.document.tools, request)
        if tools is not None:
            yield from refused_call(OF_RULE, tools, request)


OF_RULE = "tools of the rule"


def compile_policy(document: PolicyDocument) -> Policy:
    """Make a policy ready to judge; raise `BadExpression`."""
    return Policy(document)


def refused_by(
    where: str, names: str, allow: Sequence[str], deny: Sequence[str], what: str, value: str | None
) -> Iterable[str]:
    """Yield why a pair of lists refuses a value: deny wins, and a list of what is allowed excludes the rest."""
    if value is not None and (glob := first_match(deny, value)) is not None:
        yield f"{where}: deny_{names} has {glob!r}, which fits the {what} {value!r}"
    elif allow and (value is None or not matcher(tuple(allow))(value)):
        yield (
            f"{where}: allow_{names} does not have the {what} {value!r}"
            if value is not None
            else (f"{where}: allow_{names} is set, and the call names no {what}")
        )


def refused_call(where: str, tools: ToolFilter, request: PolicyRequest) -> Iterable[str]:
    labels = request.labels
    if not any(label in labels for label in TOOL_LABELS.values()):
        return
    for names, label in TOOL_LABELS.items():
        allow, deny = getattr(tools, f"allow_{names}"), getattr(tools, f"deny_{names}")
        yield from refused_by(where, names, allow, deny, names[:-1], labels.get(label))


def _evaluate(one: CompiledRule, facts: Facts, notes: list[str]) -> bool:
    assert one.when is not None
    try:
        return one.when(facts)
    except Unevaluated as error:
        notes.append(f"rule {one.rule.id!r} could not be evaluated: {error}")
        return False


def _too_fast(one: CompiledRule, request: PolicyRequest, windows: Windows | None, now: float) -> bool:
    velocity = one.rule.velocity
    if windows is None or velocity is None:
        return False
    return windows.exceeds(one.rule.id, one.key(request), velocity.max_requests, checked(velocity.window), now)


def _compiled(rule: Rule, digest: str) -> CompiledRule:
    conditions = tuple(_conditions(rule))
    indexed = ("tenant", "topic")
    reason = rule.reason or f"rule {rule.id!r}"
    return CompiledRule(
        rule=rule,
        conditions=conditions,
        tests=tuple(one.holds for one in conditions if one.field not in indexed),
        when=None if rule.when is None else compiled(rule.when),
        key=_key_of("" if rule.velocity is None else rule.velocity.key),
        verdict=Verdict(ruling=rule.decision, rule=rule.id, reason=reason, limits=rule.limits, policy=digest),
    )


def _conditions(rule: Rule) -> Iterable[Condition]:
    """Yield the conditions of a rule, the cheapest first."""
    match = rule.match
    for field, globs in (("tenant", match.tenants), ("topic", match.topics), ("actor", match.actors)):
        if globs:
            yield Condition(field, globs, _fits(field, matcher(globs)))
    if match.priority:
        yield Condition("priority", match.priority, _fits("priority", frozenset(match.priority).__contains__))
    if match.secrets is not None:
        secrets = match.secrets
        yield Condition("secrets", secrets, lambda request: request.secrets is secrets)
    if match.payload_over is not None:
        size = match.payload_over
        yield Condition("payload_size", f"over {size:,}", lambda request: len(request.payload) > size)
    for field in ("capabilities", "risk_tags"):
        if some := frozenset(getattr(match, field)):
            yield Condition(field, getattr(match, field), _any_of(field, some))
    if match.requires:
        every = frozenset(match.requires)
        yield Condition("requires", match.requires, lambda request: every.issubset(request.requires))
    for label, glob in match.labels.items():
        yield Condition(f"labels.{label}", glob, _labelled(label, matcher((glob,))))


def _fits(field: str, fits: Callable[[str], object]) -> Test:
    return lambda request: fits(getattr(request, field))


def _any_of(field: str, some: frozenset[str]) -> Test:
    return lambda request: not some.isdisjoint(getattr(request, field))


def _labelled(label: str, fits: Callable[[str], object]) -> Test:
    def test(request: PolicyRequest) -> object:
        value = request.labels.get(label)
        return value is not None and fits(value)

    return test


def _key_of(key: str) -> Callable[[PolicyRequest], str]:
    if key.startswith("label:"):
        label = key.removeprefix("label:")
        return lambda request: request.labels.get(label, "")
    return (lambda request: getattr(request, key) or "") if key else lambda request: ""


class _Index:
    """The places of rules by the values of one field, as the bits of a number."""

    def __init__(self, globs_of_rules: Sequence[Sequence[str]]) -> None:
        self._any = 0  # rules without a condition on the field
        self._exact: dict[str, int] = {}
        self._beginnings: dict[str, dict[str, int]] = {}  # text that globs begin with → glob → rules
        for place, globs in enumerate(globs_of_rules):
            if not globs:
                self._any |= 1 << place
            for glob in globs:
                known = self._exact if is_exact(glob) else self._beginnings.setdefault(beginning(glob), {})
                known[glob] = known.get(glob, 0) | 1 << place
        self._lengths = sorted({len(one) for one in self._beginnings})

    def places(self, value: str) -> int:
        """Return the rules whose condition holds for a value."""
        found = self._any | self._exact.get(value, 0)
        for length in self._lengths:
            for glob, places in self._beginnings.get(value[:length], {}).items():
                if matcher((glob,))(value):
                    found |= places
        return found


def _bits(number: int) -> Iterator[int]:
    """Yield the places of the bits that are set, the lowest first."""
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest
