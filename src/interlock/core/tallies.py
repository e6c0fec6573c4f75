"""Tallies reach the store as records of one commit, together with the position up to which runs are counted in them. So
a restart counts each run that ended after it, and none twice."""

from interlock.core.part import Part
from interlock.core.transition import Pass
from interlock.wire.command import KeepTallies

MEMO = "tallied"  # position up to which the ends of runs are counted


def keep(p: Pass, origin: str, command: KeepTallies) -> None:
    for tally in command.tallies:
        p.keep(tally)
    p.keep_memo(MEMO, str(command.position).encode())


TALLIES = Part(name="tallies", handlers={KeepTallies: keep})
