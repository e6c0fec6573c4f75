"""Jobs that exist only in the store."""

import logging
from typing import Self

import msgspec

from interlock.error import InterlockError
from interlock.model.job import Job
from interlock.model.record import Record

logger = logging.getLogger("interlock.store")


class StoredJob(Record, frozen=True):
    kind = "job"

    job: Job

    def encode(self) -> bytes:
        return msgspec.json.encode(self.job)

    @classmethod
    def read(cls, id: str, value: bytes) -> Self | None:
        job = read_job(value)
        return None if job is None else cls(id, job)


def read_job(data: bytes) -> Job | None:
    """Return a stored definition. If a check fails now, for example for a time zone that this machine does not have, it
    goes without its schedule rather than keep a scheduler from starting."""
    try:
        return msgspec.json.decode(data, type=Job)
    except (InterlockError, msgspec.ValidationError) as error:
        fields = msgspec.json.decode(data)
        try:
            job = msgspec.convert({name: value for name, value in fields.items() if name != "schedule"}, Job)
        except (InterlockError, msgspec.ValidationError):
            logger.error("the stored job %r cannot be read and is left out: %s", fields.get("id"), error)
            return None
        logger.error("the schedule of the stored job %r cannot be read, so it has none: %s", job.id, error)
        return job
