"""Bulk requests: one request for every run that fits a filter, carried out by the scheduler in passes."""

import msgspec

from interlock.model.run_action import RunAction
from interlock.model.run_filter import RunFilter


class BulkRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Act on the runs that fit `wanted` and were created before the request; the counts say how far it has come."""

    id: str
    action: RunAction
    wanted: RunFilter
    actor: str
    reason: str
    created_at: float
    ended_at: float | None = None
    """when it had looked at every run; None while it is under way"""
    done: int = 0
    """runs that the action is complete for"""
    asked: int = 0
    """runs on a worker that were asked to stop, and end when they have"""
    left: int = 0
    """runs that it has not looked at yet"""
    seq: int = 1
    """raised with every update"""
