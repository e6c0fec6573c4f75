"""The process that runs the scanners; its argument is the options, as JSON. It ends when its parent does."""

import os
import resource
import sys
from time import perf_counter
from typing import BinaryIO

import msgspec

from interlock.inspector.scan_pipe import ScanOptions, framed
from interlock.model.output import MOST_KEPT, Scanned
from interlock.model.scanner import OutputAction
from interlock.policy.scan import Scanners, compile_scanners
from interlock.worker.app_loader import load_app

MOST_MEMORY = 4 << 30  # bytes of address space
KINDNESS = 19  # the lowest priority: no scan takes a processor that a run could use
LONGEST_ERROR = 500
_results = msgspec.msgpack.Decoder(list[tuple[str, bytes]])


def main() -> None:
    options = msgspec.json.decode(sys.argv[1], type=ScanOptions)
    os.nice(KINDNESS)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    # Whatever a scanner prints goes to the log, not between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.path[:] = options.path
    own = {} if options.app is None else load_app(options.app).scanners
    scanners = compile_scanners(options.policy.scanners, own)
    _write(answers, b"")
    while head := sys.stdin.buffer.read(4):
        for run_id, content in _results.decode(sys.stdin.buffer.read(int.from_bytes(head, "big"))):
            _write(answers, msgspec.msgpack.encode(_scan(scanners, run_id, content)))


def _scan(scanners: Scanners, run_id: str, content: bytes) -> Scanned:
    began = perf_counter()
    try:
        found = scanners.scan(content, "application/json")
    except Exception as error:  # noqa: BLE001 - a scanner of one's own may raise anything
        text = f"{type(error).__name__}: {error}"[:LONGEST_ERROR]
        return Scanned(run_id, OutputAction.ALLOW, took=perf_counter() - began, error=text)
    took, findings = perf_counter() - began, found.findings
    return Scanned(run_id, found.decision, findings[:MOST_KEPT], len(findings), found.redacted, took)


def _write(stream: BinaryIO, content: bytes) -> None:
    stream.write(framed(content))
    stream.flush()


if __name__ == "__main__":
    main()
