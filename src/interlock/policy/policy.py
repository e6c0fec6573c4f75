"""A compiled policy. Rules are checked top down, and the first that matches decides. An index leaves out rules that
cannot match, and keeps the order of the rest."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from interlock.fields.duration import checked
from interlock.model.policy.document import TOOL_LABELS, PolicyDocument, Rule, ToolFilter
from interlock.model.policy.verdict import PolicyRequest, Ruling, Verdict, for_each_submitter, strictest
from interlock.policy.expression import Meter, RequestFacts, TooCostly, Unevaluated, compiled
from interlock.policy.glob import first_match, matcher
from interlock.policy.index import ANY_OF, SINGLE, Index
from interlock.policy.output import CompiledOutputPolicy
from interlock.policy.velocity import Once, Windows


def request_hash(request: PolicyRequest) -> str:
    """Return a hash over every field. Payloads with the same values have the same hash, in whatever order they are
    written."""
    try:
        payload: Any = msgspec.json.decode(request.payload)
    except (msgspec.MsgspecError, RecursionError):
        payload = request.payload  # as base64, which no payload that can be read is
    fields = msgspec.structs.asdict(request) | {"payload": payload, "readable": payload is not request.payload}
    return _digest(fields, 32)


def _digest(value: Any, size: int) -> str:
    return hashlib.blake2b(msgspec.json.encode(value, order="sorted"), digest_size=size).hexdigest()


NO_RULE = "no rule matches"
Test = Callable[[PolicyRequest], object]


class RuleCondition(msgspec.Struct, frozen=True):
    """One condition of a rule: a field of the request, what the rule wants of it, and the test."""

    field: str
    wanted: Any
    holds: Test
    indexed: bool = False


class CompiledRule(msgspec.Struct, frozen=True, kw_only=True):
    rule: Rule
    conditions: tuple[RuleCondition, ...]
    tests: tuple[Test, ...]  # of the conditions that the index does not cover
    when: Callable[[RequestFacts], bool] | None
    key: Callable[[PolicyRequest], str]  # whose requests a velocity counts together
    verdict: Verdict


class Policy:
    """Rules that are ready to judge. Of requests it remembers only which rules fit a value."""

    def __init__(self, document: PolicyDocument) -> None:
        """Raise `BadExpression`."""
        self.document = document
        self.id = document.id
        self.digest = _digest(msgspec.structs.replace(document, cases=()), 8)
        self.rules = [_compiled(rule, self.digest) for rule in document.rules]
        self.needs_payload = any(
            rule.when is not None or rule.rule.match.payload_over is not None or rule.rule.match.secrets is not None
            for rule in self.rules
        )
        self.needs_secrets = any(
            rule.rule.match.secrets is not None or "secrets" in (rule.rule.when or "") for rule in self.rules
        )
        self.output = None if document.output is None else CompiledOutputPolicy(document.output)
        self.default = Verdict(ruling=document.default_decision, reason=NO_RULE, policy=self.digest)
        self._index = Index(document.rules)
        self._has_lists = bool(document.tenants) or document.tools is not None

    def judge(
        self, request: PolicyRequest, windows: Windows | None, elapsed: float, meter: Meter | None = None
    ) -> Verdict:
        """Return the verdict on a request, the strictest if it has several submitters. Without `windows` it is a run
        judged again: rules with a velocity do not match, and nothing is counted. A request whose expressions cost too
        much is denied: another rule might allow what the one that was not evaluated forbids."""
        if request.behind:
            once = None if windows is None else Once(windows)
            return strictest([self.judge(single, once, elapsed, meter) for single in for_each_submitter(request)])
        facts: RequestFacts | None = None
        notes: list[str] = []
        places = self._index.places(request)
        while places:
            lowest = places & -places
            places ^= lowest
            compiled = self.rules[lowest.bit_length() - 1]
            for test in compiled.tests:
                if not test(request):
                    break
            else:
                if compiled.when is not None:
                    facts = facts or RequestFacts(request, meter)
                    try:
                        if not _evaluate(compiled, facts, notes):
                            continue
                    except TooCostly as error:
                        reason = f"its expression could not be evaluated: {error}"
                        denied = Verdict(ruling=Ruling.DENY, rule=compiled.rule.id, reason=reason, policy=self.digest)
                        return self._narrowed(denied, None, request, notes)
                if compiled.rule.velocity is not None and not _too_fast(compiled, request, windows, elapsed):
                    continue
                return self._narrowed(compiled.verdict, compiled.rule.tools, request, notes)
        return self._narrowed(self.default, None, request, notes)

    def _narrowed(
        self, verdict: Verdict, tools: ToolFilter | None, request: PolicyRequest, notes: Sequence[str]
    ) -> Verdict:
        """Turn the verdict into deny if a list of the tenant or a filter says so."""
        if (self._has_lists or tools is not None) and verdict.ruling is not Ruling.DENY:
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


def _evaluate(compiled: CompiledRule, facts: RequestFacts, notes: list[str]) -> bool:
    assert compiled.when is not None
    try:
        return compiled.when(facts)
    except Unevaluated as error:
        notes.append(f"rule {compiled.rule.id!r} could not be evaluated: {error}")
        return False


def _too_fast(compiled: CompiledRule, request: PolicyRequest, windows: Windows | None, elapsed: float) -> bool:
    velocity = compiled.rule.velocity
    if windows is None or velocity is None:
        return False
    return windows.exceeds(
        compiled.rule.id, compiled.key(request), velocity.max_requests, checked(velocity.window), elapsed
    )


def _compiled(rule: Rule, digest: str) -> CompiledRule:
    conditions = tuple(_conditions(rule))
    reason = rule.reason or f"rule {rule.id!r}"
    return CompiledRule(
        rule=rule,
        conditions=conditions,
        tests=tuple(condition.holds for condition in conditions if not condition.indexed),
        when=None if rule.when is None else compiled(rule.when),
        key=_key_of("" if rule.velocity is None else rule.velocity.key),
        verdict=Verdict(ruling=rule.decision, rule=rule.id, reason=reason, limits=rule.limits, policy=digest),
    )


def _conditions(rule: Rule) -> Iterable[RuleCondition]:
    """Yield the conditions of a rule, the cheapest first."""
    match = rule.match
    for field, name in SINGLE.items():
        if globs := tuple(getattr(match, name)):
            yield RuleCondition(field, globs, _fits(field, matcher(globs)), True)
    if match.secrets is not None:
        secrets = match.secrets
        yield RuleCondition("secrets", secrets, lambda request: request.secrets is secrets)
    if match.payload_over is not None:
        size = match.payload_over
        yield RuleCondition("payload_size", f"over {size:,}", lambda request: len(request.payload) > size)
    for field in ANY_OF:
        if some := frozenset(getattr(match, field)):
            yield RuleCondition(field, getattr(match, field), _any_of(field, some), True)
    if match.requires:
        every = frozenset(match.requires)
        yield RuleCondition("requires", match.requires, lambda request: every.issubset(request.requires))
    for index, (label, glob) in enumerate(match.labels.items()):
        yield RuleCondition(f"labels.{label}", glob, _labelled(label, matcher((glob,))), index == 0)


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
