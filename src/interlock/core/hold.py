"""Holding: a held run does not start until it is released. Its deadline goes on."""

from interlock.core.transition import Pass
from interlock.model.facets import Hold
from interlock.model.run import Run
from interlock.model.state import State


def hold(p: Pass, run: Run, reason: str, actor: str) -> bool:
    if is_held(p, run):
        return False
    p.set_facet(run, hold=Hold(by=actor, at=p.now))
    if run.state is State.SCHEDULED:
        p.move(run, State.PENDING, reason, actor)
    return True


def release(p: Pass, run: Run, reason: str, actor: str) -> bool:
    if not is_held(p, run):
        return False
    p.set_facet(run, hold=None)
    if run.state is State.PENDING:
        p.entering.append(run)
    return True


def is_held(p: Pass, run: Run) -> bool:
    """The stage of the entry: a held run stays pending."""
    return run.facets is not None and run.facets.hold is not None
