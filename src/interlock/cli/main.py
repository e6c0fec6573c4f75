"""The command `interlock`: which commands there are. Each is a file of this package, loaded when it is needed."""

import sys

COMMANDS = {
    "up": "Run",
    "worker": "Run",
    "submit": "Act",
    "cancel": "Act",
    "service": "Act",
    "reload": "Act",
    "runs": "Look",
    "show": "Look",
    "logs": "Look",
    "tree": "Look",
    "config": "Check",
    "doctor": "Check",
    "bench": "Check",
}
"""each with the panel of the help it is listed in"""


def main() -> None:
    # Nothing heavy is imported before this line: Ctrl-C while Python loads modules is no traceback either.
    try:
        from interlock.cli.group import run

        sys.exit(run(COMMANDS, sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
