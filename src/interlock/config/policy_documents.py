"""The policy, from a document."""

from collections.abc import Collection, Iterator, Sequence

from interlock.config.declarations import NamedDocument
from interlock.config.documents import Document, Faults
from interlock.error import shown
from interlock.fields.field import read_fields, settable
from interlock.fields.field_types import NotAccepted, did_you_mean
from interlock.model.job import Job
from interlock.model.policy.document import PolicyDocument
from interlock.policy.expression import BadExpression, compiled
from interlock.policy.glob import matcher
from interlock.policy.policy import Policy

POLICY_FIELDS = settable(PolicyDocument)


def read_policy(document: Document) -> Policy:
    found = PolicyDocument(**read_fields(POLICY_FIELDS, document.values, document.place))
    faults = list(_faults(found, document))
    for path, fault in faults:
        document.refuse(path, f"{path}: {fault}")
    if faults:
        raise NotAccepted
    return Policy(found)


def _faults(policy: PolicyDocument, document: Document) -> Iterator[tuple[str, str]]:
    """Yield the paths of rules with a name given before or a bad expression, and of cases with an unknown rule."""
    first: dict[str, str] = {}
    for place, rule in enumerate(policy.rules):
        path = f"rules[{place}].id"
        if first.setdefault(rule.id, path) != path:
            yield path, f"{shown(rule.id)} is declared twice, first at {document.spot(first[rule.id])}"
        try:
            if rule.when is not None:
                compiled(rule.when)
        except BadExpression as error:
            yield f"rules[{place}].when", str(error)
    for place, case in enumerate(policy.cases):
        if case.rule and case.rule not in first:
            yield f"cases[{place}].rule", f"there is no rule {shown(case.rule)}{did_you_mean(case.rule, first)}"


def only_policy(
    declared: Sequence[NamedDocument[Policy]],
    jobs: Collection[Job],
    faults: Faults,
    scanners: Collection[str] | None,
) -> Policy | None:
    """Return the policy; refuse a second one and scanners that the app does not have. Warn of names that no job
    has, and of scanners without an app."""
    if not declared:
        return None
    first = declared[0]
    for document in declared[1:]:
        before = f"{shown(first.name)} at {first.spot}"
        faults.add(
            document.spot, f"id: {shown(document.name)} is a second policy, after {before}; only one can be in force"
        )
    if first.value is not None:
        for path, fault in _unknown_scanners(first.value.document, scanners or ()):
            if scanners is not None:
                first.document.refuse(path, f"{path}: {fault}")
            else:
                warning = "this scanner belongs to an app; give it with -A, or results are not scanned"
                faults.warn(first.document.spot(path), f"{path}: {warning}")
    if first.value is not None and jobs and not faults.incomplete:
        for path, warning in unknown_names(first.value.document, jobs):
            faults.warn(first.document.spot(path), f"{path}: {warning}")
    return first.value


def _unknown_scanners(policy: PolicyDocument, known: Collection[str]) -> Iterator[tuple[str, str]]:
    for place, one in enumerate(() if policy.output is None else policy.output.scanners):
        if one.name is not None and one.name not in known:
            hint = f"{did_you_mean(one.name, known)}; declare it with @app.scanner"
            yield f"output.scanners[{place}].name", f"the app has no scanner {shown(one.name)}{hint}"


def unknown_names(policy: PolicyDocument, jobs: Collection[Job]) -> Iterator[tuple[str, str]]:
    """Yield the path of each topic and tag that no declared job has, with a warning."""
    topics = {job.policy_topic for job in jobs}
    tags = {
        name: {label for job in jobs for label in getattr(job, name)}
        for name in ("capabilities", "risk_tags", "requires")
    }
    for place, rule in enumerate(policy.rules):
        path = f"rules[{place}].match"
        yield from _without_topic(f"{path}.topics", rule.match.topics, topics)
        for name, known in tags.items():
            for number, tag in enumerate(getattr(rule.match, name)):
                if tag not in known:
                    yield f"{path}.{name}[{number}]", f"no declared job has {shown(tag)}{did_you_mean(tag, known)}"
    for tenant, lists in policy.tenants.items():
        for name in ("allow_topics", "deny_topics"):
            yield from _without_topic(f"tenants.{tenant}.{name}", getattr(lists, name), topics)


def _without_topic(path: str, globs: Collection[str], topics: Collection[str]) -> Iterator[tuple[str, str]]:
    for number, glob in enumerate(globs):
        if not any(map(matcher((glob,)), topics)):
            yield f"{path}[{number}]", f"no declared job has a topic {shown(glob)}{did_you_mean(glob, topics)}"
