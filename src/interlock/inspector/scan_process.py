"""The process that runs the scanners; its first frame is the options. It ends when its parent does."""

import os
import sys
import traceback
from pathlib import Path
from time import perf_counter
from typing import BinaryIO

import msgspec

from interlock.fields.payload import LIMIT
from interlock.inspector.scan_pipe import ScanOptions, framed
from interlock.log_lines import print_as_json
from interlock.model.policy.output import MOST_KEPT, Scanned
from interlock.model.policy.scanner import OutputAction
from interlock.policy.scan import Scanners
from interlock.worker.app_loader import load_app
from interlock.worker.limits import end_with_parent, limit_memory, prefer_for_oom

MOST_MEMORY = 1 << 30  # bytes beyond those that the app has
NICENESS = 19  # the lowest priority: no scan takes a processor that a run could use
_results = msgspec.msgpack.Decoder(list[tuple[str, bytes]])


def main() -> None:
    end_with_parent()
    prefer_for_oom()
    os.nice(NICENESS)
    # Scanners cannot reach the pipes: whatever they print goes to the log, and they read nothing.
    given, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    options = msgspec.msgpack.decode(_read(given), type=ScanOptions)
    if options.log_format == "json":
        print_as_json()
    sys.path[:] = options.path
    own = {} if options.app is None else load_app(options.app).scanners
    scanners = Scanners(options.policy.scanners, own)
    limit_memory(MOST_MEMORY)
    _write(answers, b"")
    while frame := _read(given):
        for run_id, content in _results.decode(frame):
            _write(answers, msgspec.msgpack.encode(_scan(scanners, run_id, content)))


def _scan(scanners: Scanners, run_id: str, content: bytes) -> Scanned:
    began = perf_counter()
    try:
        found = scanners.scan(content, "application/json")
    except Exception as error:  # noqa: BLE001 - a scanner of one's own may raise anything
        return Scanned(run_id, OutputAction.ALLOW, took=perf_counter() - began, error=_place(error))
    took, findings = perf_counter() - began, found.findings
    # A redacted result that is larger than any result may be is left out, which quarantines the original.
    redacted = found.redacted if len(found.redacted or b"") <= LIMIT else None
    return Scanned(run_id, found.decision, findings[:MOST_KEPT], len(findings), redacted, took)


def _place(error: Exception) -> str:
    """Return the class of an error and its place, without the message, which may quote the result."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {last.name} ({Path(last.filename).name}, line {last.lineno})"


def _read(stream: BinaryIO) -> bytes:
    """Return the next frame; none is empty, so empty means the end."""
    return stream.read(int.from_bytes(stream.read(4), "big"))


def _write(stream: BinaryIO, content: bytes) -> None:
    stream.write(framed(content))
    stream.flush()
