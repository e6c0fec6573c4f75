"""The difference between two policies for the same requests."""

from collections.abc import Iterable, Iterator

import msgspec

from interlock.model.policy import PolicyRequest, Ruling, Verdict
from interlock.policy.policy import Policy
from interlock.policy.velocity import Windows

ALLOWED = Verdict(ruling=Ruling.ALLOW, reason="there is no policy")


class Change(msgspec.Struct, frozen=True):
    before: Verdict
    after: Verdict

    @property
    def differs(self) -> bool:
        """Whether a run would be treated differently; another rule with the same decision does not count."""
        return (self.before.ruling, self.before.limits) != (self.after.ruling, self.after.limits)


def compare(
    old: Policy | None, new: Policy | None, requests: Iterable[tuple[PolicyRequest, float]]
) -> Iterator[Change]:
    """Judge requests, in the order of their times, under both policies; None allows everything."""
    of_old, of_new = Windows(), Windows()
    for request, at in requests:
        before = ALLOWED if old is None else old.judge(request, of_old, at)
        yield Change(before, ALLOWED if new is None else new.judge(request, of_new, at))
