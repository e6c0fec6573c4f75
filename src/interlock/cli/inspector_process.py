"""The inspector process of a scheduler; its argument is the options, as JSON."""

import sys

import msgspec

from interlock import runtime
from interlock.cli.log_lines import log_to_stderr
from interlock.cli.output import one_line_errors
from interlock.wiring.inspector import InspectorOptions, run_inspector


def main() -> None:
    with one_line_errors():
        options = msgspec.json.decode(sys.argv[1], type=InspectorOptions)
        log_to_stderr(options.log_level, options.log_format)
        runtime.run(run_inspector(options))


if __name__ == "__main__":
    main()
