"""A child process of a scheduler. Its arguments are a coroutine function, `module:name`, and its options as JSON, or a
file number where they can be read. The function gets the options, and before them a reader of the store if it
takes one."""

import os
import sys
from importlib import import_module
from typing import get_type_hints

import msgspec

from interlock import runtime
from interlock.error_lines import one_line_errors
from interlock.log_lines import log_to_stderr
from interlock.wiring.child import until_stopped


def main() -> None:
    with one_line_errors():
        module, _, name = sys.argv[1].partition(":")
        function = getattr(import_module(module), name)
        kinds = get_type_hints(function)
        options = msgspec.json.decode(_options(sys.argv[2]), type=kinds["options"])
        log_to_stderr(options.log_level, options.log_format)
        runtime.run(until_stopped(function, options) if "reader" in kinds else function(options))


def _options(given: str) -> str | bytes:
    if not given.isdigit():
        return given
    # From the start of the file, which every such process reads.
    data = os.pread(int(given), os.fstat(int(given)).st_size, 0)
    os.close(int(given))
    return data
