"""Violations of constraints, as their runs keep them."""

from msgspec.structs import replace

from interlock.core.transition import Pass
from interlock.model.guard import Violation, ViolationEvent
from interlock.model.run import Run

MOST_KEPT = 10  # latest ones that a run keeps


def violate(p: Pass, run: Run, constraint: str, message: str, count: int = 1) -> None:
    """Record that a run violates a constraint, or that its action failed, which does not count."""
    found = Violation(constraint, message, p.now)
    guarded = run.guarded
    kept = (*guarded.violations, found)[-MOST_KEPT:]
    p.set_facet(run, constraints=replace(guarded, violations=kept, violated=guarded.violated + count))
    p.violations.append((run, found))
    p.announce(
        ViolationEvent(
            run_id=run.id, job_id=run.job_id, tenant=run.tenant, at=p.now, constraint=constraint, message=message
        )
    )
