"""Debounce: a run joins another that waits in its session."""

from typing import Any

from interlock.core.policy.judge_state import is_judged
from interlock.core.transition import Pass
from interlock.fields.payload import LIMIT
from interlock.model.facets import CollapsedInto, Collected, Facets
from interlock.model.labels import BYPASSED
from interlock.model.run import Run
from interlock.model.state import HOLDS_SLOT, State

MOST_COLLECTED = 16 * LIMIT  # bytes of the payloads that a run collects: they go to a worker in one message


def collapse(p: Pass, into: Run, run: Run) -> bool:
    """End a scheduled run as skipped, and give its payloads to another that waits. Change nothing and return False
    if that one has been dispatched, is of another job, is another case for the policy, or has no room for them."""
    own = Collected(1, LIMIT if run.payload is None else len(run.payload))
    before = [run.facets.collected for run in (into, run) if run.facets is not None]
    parts = [own, *filter(None, before)]
    total = Collected(sum(part.payloads for part in parts), sum(part.bytes for part in parts))
    if into.state in HOLDS_SLOT or into.job_id != run.job_id or total.bytes > MOST_COLLECTED:
        return False
    if is_judged(p.state) and not _are_alike(into, run):
        return False
    p.move(run, State.SKIPPED, f"debounced into {into.id}")
    p.set_facet(run, collapsed_into=CollapsedInto(into.id))
    value = None if run.facets is None else run.facets.limit_value  # of the last payload, as the arguments
    p.set_facet(into, collected=total, limit_value=value)
    p.batch.inputs.copied.append((into.id, run.id, True))
    return True


def _are_alike(into: Run, run: Run) -> bool:
    """Return whether a policy cannot tell two runs apart but by their payloads, and allows both without conditions.
    A run that passed without a verdict is not allowed."""
    if into.judged is not None or run.judged is not None or BYPASSED in into.labels:
        return False
    return _seen_by_policy(into) == _seen_by_policy(run)


def _seen_by_policy(run: Run) -> tuple[Any, ...]:
    facets = run.facets or Facets()
    return run.job_version, run.submitters, run.lane, run.origin, facets.labels, facets.priority
