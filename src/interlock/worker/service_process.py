"""The process of a service that is a function; its options are one JSON argument."""

import io
import sys

import msgspec

from interlock.error_lines import one_line_errors
from interlock.worker.service import ServiceOptions, run_service


def main() -> None:
    # The output is the service's log, read line by line.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, errors="backslashreplace")
    with one_line_errors():
        sys.exit(run_service(msgspec.json.decode(sys.argv[1], type=ServiceOptions)))


if __name__ == "__main__":
    main()
