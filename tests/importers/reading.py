"""Import a text as the command does, and read what was written as a scheduler does."""

from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec

from interlock.config.sources import load
from interlock.importers.draft import Imported, ImportSource, write
from interlock.model.job import Job

NOW = 1_800_000_000.0  # 15 January 2027, a Friday


class Written(NamedTuple):
    text: str
    jobs: dict[str, Job]
    kept: str  # comments alone: what was not carried over, and notes


def imported(kind: str, text: str, path: Path | None = None, tz: str = "UTC", system: bool = False) -> Written:
    """Import a text, or a file that is written with it first."""
    if path is not None:
        path.write_text(text)
    source = ImportSource(
        name="-" if path is None else path.name,
        text=text,
        path=None if path is None else str(path),
        folder="/srv/jobs" if path is None else str(path.parent),
        tz=tz,
        system=system,
    )
    found: Imported = import_module(f"interlock.importers.{kind}").read(source)
    written, count = write("title", found, source.folder, NOW)
    with TemporaryDirectory() as folder:
        file = (path.parent if path else Path(folder)) / "written.yaml"
        file.write_text(written)
        jobs = {one.job.id: one.job for one in load([str(file)], strict=False).jobs}
    assert len(jobs) == count
    comments = "\n".join(line for line in written.splitlines() if line.startswith("#"))
    return Written(written, jobs, comments)


def schedule_of(job: Job) -> dict[str, object]:
    """Return the fields of its schedule that are not defaults."""
    assert job.schedule is not None
    return dict(msgspec.to_builtins(job.schedule))
