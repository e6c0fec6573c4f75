"""The sender process of a scheduler; its argument is the options, as JSON."""

import sys

import msgspec

from interlock import runtime
from interlock.cli.log_lines import log_to_stderr
from interlock.cli.output import one_line_errors
from interlock.wiring.sender import SenderOptions, run_sender


def main() -> None:
    with one_line_errors():
        options = msgspec.json.decode(sys.argv[1], type=SenderOptions)
        log_to_stderr(options.log_level, options.log_format)
        runtime.run(run_sender(options))


if __name__ == "__main__":
    main()
