"""Payloads of collapsed runs in the store in memory."""

from collections.abc import Mapping

from interlock.core.decisions import Batch
from interlock.model.run import Run


def copy_payloads(batch: Batch, runs: Mapping[str, Run], further: dict[str, dict[str, bytes]]) -> None:
    """Add the payloads that a batch copies: run → source → payload, in order."""
    for into, run_id, with_own in batch.inputs.copied:
        own = {run_id: runs[run_id].payload or b""} if with_own and run_id in runs else {}
        if into in runs:
            further[into] = further.get(into, {}) | own | further.get(run_id, {})
