"""The worker process of a scheduler; its options are one JSON argument."""

import sys

import msgspec

from interlock import runtime
from interlock.cli.log_lines import log_to_stderr
from interlock.cli.output import one_line_errors
from interlock.wiring.worker import WorkerOptions, run_worker


def main() -> None:
    with one_line_errors():
        options = msgspec.json.decode(sys.argv[1], type=WorkerOptions)
        log_to_stderr(options.log_level, options.log_format)
        runtime.run(run_worker(options))


if __name__ == "__main__":
    main()
