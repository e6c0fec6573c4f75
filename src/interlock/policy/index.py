"""An index of rules by topic, tenant, actor, priority, tags and labels. A set of rules is a number: each rule is a bit,
the first rule the lowest. So the order is kept, and a thousand rules are compared with a request at once."""

from collections.abc import Mapping, Sequence

from interlock.model.policy.document import Rule
from interlock.model.policy.verdict import PolicyRequest
from interlock.policy.glob import beginning, is_exact, matcher

MOST_KEPT = 4096  # values of a field whose rules are remembered
SINGLE = {"topic": "topics", "tenant": "tenants", "actor": "actors", "priority": "priority"}
"""field of a request with one value → field of a rule with globs for it"""
ANY_OF = ("capabilities", "risk_tags")


class Index:
    """Finds the rules whose indexed conditions hold: all but `requires`, size, secrets, and labels after the first."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._all = (1 << len(rules)) - 1
        single = [(field, _Values(_globs(rules, name))) for field, name in SINGLE.items()]
        any_of = [(field, _Values(_globs(rules, field))) for field in ANY_OF]
        self._single, self._any_of = (
            [condition for condition in some if condition[1].matters] for some in (single, any_of)
        )
        labelled: dict[str, dict[int, Sequence[str]]] = {}  # the first label of a rule → the rule → glob
        for index, rule in enumerate(rules):
            for label, glob in list(rule.match.labels.items())[:1]:
                labelled.setdefault(label, {})[index] = (glob,)
        self._labels = {label: _Values(globs) for label, globs in labelled.items()}
        self._unlabelled = sum(1 << index for index, rule in enumerate(rules) if not rule.match.labels)

    def places(self, request: PolicyRequest) -> int:
        found = self._all
        for field, values in self._single:
            found &= values.places(getattr(request, field))
        for field, values in self._any_of:
            found &= values.places_of_any(getattr(request, field))
        if self._labels:
            labelled = self._unlabelled
            for label, value in request.labels.items():
                if label in self._labels:
                    labelled |= self._labels[label].places(value)
            found &= labelled
        return found


def _globs(rules: Sequence[Rule], name: str) -> dict[int, Sequence[str]]:
    return {index: getattr(rule.match, name) for index, rule in enumerate(rules)}


class _Values:
    """The places of rules by the values of one field: exact, or by the text that a glob begins with."""

    def __init__(self, globs_of_rules: Mapping[int, Sequence[str]]) -> None:
        self._free = 0  # rules without a condition on the field
        self._exact: dict[str, int] = {}
        self._beginnings: dict[str, dict[str, int]] = {}  # text that globs begin with → glob → rules
        for index, globs in globs_of_rules.items():
            if not globs:
                self._free |= 1 << index
            for glob in globs:
                known = self._exact if is_exact(glob) else self._beginnings.setdefault(beginning(glob), {})
                known[glob] = known.get(glob, 0) | 1 << index
        self._lengths = sorted({len(beginning) for beginning in self._beginnings})
        self.kept: dict[str, int] = {}

    @property
    def matters(self) -> bool:
        """Whether any rule has a condition on the field."""
        return bool(self._exact or self._beginnings)

    def places(self, value: str) -> int:
        """Return the rules whose condition holds for a value."""
        found = self.kept.get(value)
        if found is None:
            found = self._free | self._exact.get(value, 0)
            for length in self._lengths:
                for glob, places in self._beginnings.get(value[:length], {}).items():
                    if matcher((glob,))(value):
                        found |= places
            if len(self.kept) >= MOST_KEPT:
                self.kept.clear()
            self.kept[value] = found
        return found

    def places_of_any(self, values: Sequence[str]) -> int:
        """Return the rules that name one of these plain values (not globs), or that have no condition."""
        found = self._free
        for value in values:
            found |= self._exact.get(value, 0)
        return found
