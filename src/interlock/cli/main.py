"""The command `interlock`: which commands there are. Each is a file of this package, loaded when it is needed."""

import os
import sys

from interlock.model.run_action import RunAction

COMMANDS = {
    "up": "Run",
    "worker": "Run",
    "submit": "Act",
    "trigger": "Act",
    **{str(action): "Act" for action in RunAction},
    "pause": "Act",
    "resume": "Act",
    "backfill": "Act",
    "service": "Act",
    "reload": "Act",
    "jobs": "Look",
    "lanes": "Look",
    "next": "Look",
    "timetable": "Look",
    "runs": "Look",
    "show": "Look",
    "logs": "Look",
    "tree": "Look",
    "check": "Check",
    "simulate": "Check",
    "config": "Check",
    "doctor": "Check",
    "bench": "Check",
}
"""each with the panel of the help it is listed in"""


def main() -> None:
    _have_standard_streams()
    # Nothing heavy is imported before this line: Ctrl-C while Python loads modules is no traceback either.
    try:
        from interlock.cli.group import run

        sys.exit(run(COMMANDS, sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)


def _have_standard_streams() -> None:
    """Whoever starts this may have closed them. A database would be opened in their place, and written to by whatever
    complains there."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


if __name__ == "__main__":
    main()
