"""The snapshot of the workers: a memo from which the next scheduler knows whom to expect back.

A worker that is expected is known and not connected: it gets nothing before it has said hello, which also replaces
everything known of it but `drained`. After the silence that makes an attempt lost, it is forgotten.
"""

from collections.abc import Mapping, Sequence, Set

import msgspec
from msgspec.structs import asdict

from interlock.core.roster import Worker
from interlock.core.state import SchedulerState
from interlock.core.transition import Pass
from interlock.fields.field import copy_fields
from interlock.model.pool import DEFAULT_POOL
from interlock.model.run import Now

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


_DECODER = msgspec.json.Decoder(list[KnownWorker])


def keep(p: Pass) -> None:
    """Store the snapshot if the workers have changed: at most once in `EVERY` seconds, but at once before a stop."""
    state, kept = p.state, p.state.kept_workers
    if p.elapsed < kept.look_at and not state.draining:
        return
    kept.look_at = p.elapsed + LOOK
    p.warnings += kept.warnings
    kept.warnings = []
    staying = sorted((one for one in state.workers.values() if not one.draining), key=lambda one: one.id)
    memo = msgspec.json.encode([copy_fields(KnownWorker, one) for one in staying], order="deterministic")
    if memo != kept.memo and (p.elapsed >= kept.write_at or state.draining):
        kept.memo = memo
        p.keep_memo(MEMO, memo)
        kept.write_at = p.elapsed + EVERY


def expect(state: SchedulerState, memo: bytes | None, now: Now) -> None:
    """Expect the workers of a snapshot back. Without one that can be read, expect nobody."""
    kept = state.kept_workers
    if memo is None:
        return
    kept.memo = memo
    try:
        known = _DECODER.decode(memo)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        kept.warnings.append(f"the snapshot of the workers cannot be read, so none is expected back: {error}")
        return
    for one in known:
        state.workers[one.id] = Worker(**asdict(one), heard=now.elapsed)
    if known:
        state.warm_until = now.elapsed + state.limits.silence
        state.watch_silence(now.elapsed)
