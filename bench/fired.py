"""The job of the measured timetable: it notes when it began, the same function for every scheduler."""

import time
from pathlib import Path

import msgspec

from interlock.app import App

app = App()
Noted = list[tuple[int, float]]  # which job began, and when, in seconds since 1970
_noted: Noted = []


def note(number: int) -> None:
    _noted.append((number, time.time()))


def write(path: str) -> None:
    """Write the notes of this process, as a whole or not at all."""
    partial = Path(f"{path}.partial")
    partial.write_bytes(msgspec.msgpack.encode(_noted))
    partial.rename(path)


def read(path: Path) -> Noted:
    return msgspec.msgpack.decode(path.read_bytes(), type=Noted)


# In the same process as the others: they are neither async nor isolated, and there is one worker.
app.job("bench.write", lane="bench")(write)
