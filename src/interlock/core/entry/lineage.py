"""Lineage: a run that was made by a run names it and its root, and runs on behalf of everybody who submitted those.

It gets the tenant of its parent. The policy judges it for each of its submitters, and none of them can approve it.

A dispatch carries a proof: a hash of run and fence under a key that only the store has. Clients find the claim of the
present attempt in the context variable that also captures output, or in a program's environment, and send it with every
submit, retry and approval (`wire/claim.py`). The scheduler checks it. Parent and root are columns with indexes that
plain runs are not in; submitters and the runs between root and parent are facets. A cancel that cascades is a bulk
request for the runs `under` one.
"""

import hashlib
import hmac
from collections.abc import Iterable

import msgspec

from interlock.core.bulk.table import Bulks
from interlock.core.facts import Snapshot
from interlock.core.state import SchedulerState
from interlock.core.transition import Pass
from interlock.error import Forbidden
from interlock.model.access import OWNER
from interlock.model.run import Now, Run, name_of_run
from interlock.wire.claim import MOST_ABOVE, read_claim

MEMO = "claim_key"


class Proofs(msgspec.Struct):
    prover: hashlib.blake2b | None = None  # hash with the key of proofs


def load(state: SchedulerState, snapshot: Snapshot, now: Now) -> None:
    set_key(state, snapshot.memos.get(MEMO))


def adopt_key(p: Pass, key: bytes) -> None:
    """Take the key of proofs, unless the store has one: attempts outlive the scheduler that dispatched them."""
    if p.state.of(Proofs).prover is None and key:
        set_key(p.state, key)
        p.keep_memo(MEMO, key)


def set_key(state: SchedulerState, key: bytes | None) -> None:
    state.of(Proofs).prover = None if key is None else hashlib.blake2b(key=key, digest_size=16)


def proof_of(state: SchedulerState, run_id: str, fence: int) -> str:
    """Return the proof that code belongs to this attempt; empty without a key, in which case no claim is valid."""
    prover = state.of(Proofs).prover
    if prover is None:
        return ""
    prover = prover.copy()
    prover.update(f"{fence}/{run_id}".encode())
    return prover.hexdigest()


def claimant(p: Pass, text: str) -> Run | None:
    """Return the run whose code makes a request; None if it is not the code of a run."""
    if not text:
        return None
    claim = read_claim(text)
    proof, run = proof_of(p.state, claim.run_id, claim.fence), p.state.runs.get(claim.run_id)
    if not proof or not hmac.compare_digest(claim.proof.encode(), proof.encode()):
        raise Forbidden(f"parent: the claim to be run {claim.run_id!r} is wrong; leave it out")
    if run is None or run.ended_at is not None or run.fence != claim.fence:
        raise Forbidden(f"parent: this attempt of run {claim.run_id!r} is over, and makes no further runs")
    return run


def maker(p: Pass, text: str, tenants: Iterable[str]) -> Run | None:
    """Return the run whose code makes runs in these tenants; None if it is not the code of a run."""
    parent = claimant(p, text)
    if parent is None:
        return None
    if other := set(tenants) - {parent.tenant}:
        raise Forbidden(f"tenant: {min(other)!r} is not that of run {parent.id!r}, which makes the run")
    if is_closed(p.state, parent):
        raise Forbidden(f"parent: run {parent.id!r} is cancelled together with the runs that it makes")
    return parent


def is_closed(state: SchedulerState, run: Run) -> bool:
    """Return whether a run is cancelled with what it makes, or will be when the request comes to it."""
    under_way = (state.of(Bulks).requests[bulk_id] for bulk_id in state.of(Bulks).walks)
    return bool(run.facets is not None and run.facets.cascade) or any(
        bulk.is_cascade and bulk.wanted.fits(run) for bulk in under_way
    )


def asker(actor: str, parent: Run | None) -> str:
    """Return who asks for a run: code with nothing but the owner's socket is known by its run."""
    return actor if parent is None or actor != OWNER.name else name_of_run(parent.id)


def place(p: Pass, run: Run, parent: Run, others: tuple[str, ...] = ()) -> None:
    """Put a new run below its parent, on behalf of everybody who submitted the parent, and of others."""
    behind = tuple(dict.fromkeys((*parent.submitters, *others)))
    if behind != (run.created_by,):
        p.set_facet(run, behind=behind)
    run.parent, run.root = parent.id, parent.root or parent.id
    if (above := runs_above(parent)) is not None:
        p.set_facet(run, above=above)


def runs_above(parent: Run) -> tuple[str, ...] | None:
    """Return the runs between the root and this parent of a run, the nearest last; None without any."""
    between = parent.above if parent.parent in (None, parent.root) else (*parent.above, parent.parent)
    return between[-MOST_ABOVE:] or None
