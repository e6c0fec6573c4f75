"""A watch on files: reload them when they have changed and are complete."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import chain

from interlock.config.documents import Faults, files_of
from interlock.error import BadConfig, BadDefinition, InterlockError
from interlock.worker.app_loader import OUTSIDE

EVERY = 1.0  # seconds between two looks
DEV_EVERY = 0.25  # the same during development
FileStamps = list[tuple[str, int, int, int]]  # each file with its time of change, size and inode


class FileWatch:
    """Watches files and folders of documents, and Python files below `sources`. `reload` reads them and reports their
    faults."""

    def __init__(
        self,
        paths: Sequence[str],
        reload: Callable[[], Awaitable[None]],
        every: float = EVERY,
        sources: Sequence[str] = (),
    ) -> None:
        self._paths = paths
        self._sources = sources
        self._reload = reload
        self._every = every
        self._read: FileStamps | None = look(paths, sources)  # the files as they were read

    async def run(self) -> None:
        before = self._read
        while True:
            await asyncio.sleep(self._every)
            now = await asyncio.to_thread(look, self._paths, self._sources)
            # A file that is being written differs between two looks.
            if now == before and now != self._read:
                await self._read_again(now)
            before = now

    async def _read_again(self, now: FileStamps) -> None:
        self._read = now
        try:
            await self._reload()
        except (BadConfig, BadDefinition):
            pass  # It is reported, and tried again after the next change.
        except InterlockError:
            # The files are not at fault; the next look tries again.
            self._read = None


def look(paths: Sequence[str], sources: Sequence[str] = ()) -> FileStamps:
    found: FileStamps = []
    documents = (file for path in paths for file in files_of(path, Faults()))
    for file in chain(documents, _python_files(sources)):
        try:
            status = os.stat(file)
        except OSError as error:
            found.append((file, 0, 0, -(error.errno or 1)))
        else:
            found.append((file, status.st_mtime_ns, status.st_size, status.st_ino))
    return found


def _python_files(folders: Sequence[str]) -> Iterator[str]:
    for top in folders:
        for folder, below, files in os.walk(top):
            below[:] = sorted(name for name in below if name not in OUTSIDE and not name.startswith("."))
            if "pyvenv.cfg" in files:
                below.clear()
            yield from (os.path.join(folder, file) for file in sorted(files) if file.endswith(".py"))
