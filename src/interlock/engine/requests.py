"""What clients want done to jobs, or to many runs at once, checked and made into commands."""

from typing import TYPE_CHECKING

import msgspec

from interlock.engine import intake
from interlock.engine.catalog import PUT, Catalog
from interlock.model import request as r
from interlock.model.command import Drop, Pause, Put, Refill, StartBulk
from interlock.model.error import BadValue, NotPut
from interlock.model.job import Job

if TYPE_CHECKING:
    from interlock.engine.engine import Engine

Change = r.SetPaused | r.Backfill | r.PutJobs | r.DropJob | r.StartBulk
KINDS = (r.SetPaused, r.Backfill, r.PutJobs, r.DropJob, r.StartBulk)


def command_of(
    message: Change, actor: str, engine: "Engine", catalog: Catalog
) -> Put | Refill | Pause | Drop | StartBulk:
    """Raises the first thing that is wrong with it."""
    if isinstance(message, r.StartBulk):
        return StartBulk(message.request, message.bulk_id, message.action, message.wanted, message.reason, actor)
    if isinstance(message, r.PutJobs):
        return Put(message.request, [_checked(job, engine, catalog) for job in message.jobs], actor)
    if isinstance(message, r.Backfill):
        return intake.refill(message, engine.state, catalog, actor, engine.now())
    entry = catalog.get(message.job_id, engine.state.jobs)
    if isinstance(message, r.SetPaused):
        return Pause(message.request, message.job_id, message.paused, actor)
    if entry.source != PUT:
        raise NotPut(message.job_id, entry.source)
    return Drop(message.request, message.job_id, actor)


def _checked(job: Job, engine: "Engine", catalog: Catalog) -> Job:
    if job.id in engine.state.declared:
        raise NotPut(job.id, catalog.source(job.id))
    if job.work is None:
        raise BadValue("run", None, f"what job {job.id!r} does: a process or a function")
    # A version says what is in a definition, so it is not for others to give.
    return msgspec.structs.replace(job, version="")
