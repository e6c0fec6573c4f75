"""Lineage: how the code of an attempt shows which run it belongs to when it makes another run.

A dispatch carries a proof that only the scheduler can make. Clients add the claim of the present attempt to whatever
they submit, and the scheduler checks it.
"""

import os
from collections.abc import Callable

import msgspec

from interlock.error import BadValue

HEADER = "Interlock-Parent"
VARIABLE = "INTERLOCK_PARENT"  # in the environment of a program
MOST_ABOVE = 32  # runs between a run and its root that its record names, the nearest
_FORM = "<proof>/<fence>/<tenant>/<run>, as in $INTERLOCK_PARENT of a run's program"


class Claim(msgspec.Struct, frozen=True):
    """A claim to be the code of this attempt."""

    proof: str
    fence: int
    tenant: str
    run_id: str

    def __str__(self) -> str:
        return f"{self.proof}/{self.fence}/{self.tenant}/{self.run_id}"


def read_claim(text: str) -> Claim:
    proof, *rest = text.split("/", 3)
    if len(rest) != 3 or not rest[0].isdecimal() or len(rest[0]) > 18:
        raise BadValue("parent", text[:80], _FORM)
    return Claim(proof, int(rest[0]), rest[1], rest[2])


_find: Callable[[], str] = str


def find_claims_with(find: Callable[[], str]) -> None:
    """In a process that executes attempts, set how to find the claim of the present one; empty outside attempts."""
    global _find
    _find = find


def present_claim() -> str:
    """Return the claim of the attempt whose code calls this: a function, or a program; empty for any other code."""
    return _find() or os.environ.get(VARIABLE, "")
