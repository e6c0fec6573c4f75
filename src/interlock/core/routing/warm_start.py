"""The snapshot of the workers: a memo from which the next scheduler knows whom to expect back.

A worker that is expected is known and not connected: it gets nothing before it has said hello, which also replaces
everything known of it but `drained`. After the silence that makes an attempt lost, it is forgotten.
"""

from collections.abc import Mapping, Sequence, Set

import msgspec
from msgspec.structs import asdict

from interlock.core.attempts.silence import watch_silence
from interlock.core.facts import Snapshot
from interlock.core.routing.roster import Worker
from interlock.core.state import SchedulerState
from interlock.core.transition import Pass
from interlock.fields.field import copy_fields
from interlock.model.pool import DEFAULT_POOL
from interlock.model.run import Now
from interlock.model.state import ON_WORKER

MEMO = "workers"
EVERY = 5.0  # least seconds between two snapshots
LOOK = 1.0  # seconds between two looks for a change


class KnownWorker(msgspec.Struct, frozen=True, omit_defaults=True):
    """The lasting facts about a worker, without its load and its jobs, which its hello brings."""

    id: str
    slots: int = 0
    processes: int = 0
    pool: str = DEFAULT_POOL
    capabilities: Sequence[str] = ()
    labels: Mapping[str, str] = {}
    tenants: Set[str] | None = None
    drained: bool = False


class KeptWorkers(msgspec.Struct):
    """The stored snapshot of the workers."""

    memo: bytes = b"[]"
    look_at: float = 0.0  # elapsed time of the next look for a change
    write_at: float = 0.0  # elapsed time from which a changed one may be stored
    warnings: list[str] = []  # problems with the one that was read
    warm_until: float = 0.0  # elapsed time until which workers of the time before a restart are expected back


_DECODER = msgspec.json.Decoder(list[KnownWorker])


def keep(p: Pass) -> None:
    """Store the snapshot if the workers have changed: at most once in `EVERY` seconds, but at once before a stop."""
    state, kept = p.state, p.state.of(KeptWorkers)
    if p.elapsed < kept.look_at and not state.draining:
        return
    kept.look_at = p.elapsed + LOOK
    p.warnings += kept.warnings
    kept.warnings = []
    staying = sorted((worker for worker in state.workers.values() if not worker.draining), key=lambda worker: worker.id)
    memo = msgspec.json.encode([copy_fields(KnownWorker, run) for run in staying], order="deterministic")
    if memo != kept.memo and (p.elapsed >= kept.write_at or state.draining):
        kept.memo = memo
        p.keep_memo(MEMO, memo)
        kept.write_at = p.elapsed + EVERY


def load(state: SchedulerState, snapshot: Snapshot, now: Now) -> None:
    """Expect the workers of a snapshot back. Without one that can be read, expect only those with runs."""
    memo = snapshot.memos.get(MEMO)
    kept = state.of(KeptWorkers)
    if memo is None:
        if any(run.worker_id is not None and run.state in ON_WORKER for run in snapshot.runs):
            text = "the store has no snapshot of the workers; only those with runs are expected back"
            kept.warnings.append(text)
        return
    kept.memo = memo
    try:
        known = _DECODER.decode(memo)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        kept.warnings.append(f"the snapshot of the workers cannot be read, so none is expected back: {error}")
        return
    for worker in known:
        state.workers[worker.id] = Worker(**asdict(worker), heard=now.elapsed)
    if known:
        state.of(KeptWorkers).warm_until = now.elapsed + state.limits.silence
        watch_silence(state, now.elapsed)
