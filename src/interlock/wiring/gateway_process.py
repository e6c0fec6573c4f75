"""The gateway process of a scheduler; its argument is the number of an open file that holds the options."""

import sys

from interlock import runtime
from interlock.error_lines import one_line_errors
from interlock.log_lines import log_to_stderr
from interlock.wiring.gateway import read_options, run_gateway


def main() -> None:
    with one_line_errors():
        options = read_options(int(sys.argv[1]))
        log_to_stderr(options.log_level, options.log_format)
        runtime.run(run_gateway(options))


if __name__ == "__main__":
    main()
