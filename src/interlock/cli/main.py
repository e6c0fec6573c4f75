"""The command `interlock` and the list of its commands. Each is a file of this package, loaded on demand."""

import atexit
import gc
import os
import sys

COMMANDS = {
    "init": "Run",
    "up": "Run",
    "worker": "Run",
    "worker-token": "Run",
    "submit": "Act",
    "trigger": "Act",
    **dict.fromkeys(("cancel", "hold", "release", "retry"), "Act"),
    "event": "Act",
    "approve": "Act",
    "reject": "Act",
    "pause": "Act",
    "resume": "Act",
    "backfill": "Act",
    "lane": "Act",
    **dict.fromkeys(("stop", "stopall", "reset"), "Act"),
    "session": "Act",
    "redeliver": "Act",
    "dlq list": "Act",
    "dlq show": "Act",
    "dlq replay": "Act",
    "dlq edit": "Act",
    "dlq drop": "Act",
    "workflow plan": "Act",
    "workflow record": "Act",
    "workflow diff": "Act",
    "workflow resume": "Act",
    "workflow abandon": "Act",
    "service": "Act",
    "reload": "Act",
    **{
        file.removesuffix(".py"): "Look"
        for file in sorted(os.listdir(f"{os.path.dirname(__file__)}/look"))
        if file[0] != "_"
    },
    "import": "Check",
    "check": "Check",
    "policy test": "Check",
    "policy explain": "Check",
    "policy diff": "Check",
    "policy serve": "Check",
    "policy show": "Check",
    "simulate": "Check",
    "config": "Check",
    "doctor": "Check",
    "bench": "Check",
    "backup": "Keep",
    "restore": "Keep",
    "vacuum": "Keep",
    "migrate": "Keep",
}
"""command → its panel in the help; those of a group have names of two words, and every file in `look` is a command"""


def main() -> None:
    _have_standard_streams()
    # Loading makes no garbage, and at the end Python would look for some in all that is loaded: together a quarter of
    # the time of a short command.
    gc.set_threshold(100_000, 20, 20)
    atexit.register(gc.freeze)
    # Nothing heavy is imported before this line, so that Ctrl-C during imports shows no traceback.
    try:
        from interlock.cli.group import run

        sys.exit(run(COMMANDS, sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)


def _have_standard_streams() -> None:
    """Open standard streams that the caller has closed; otherwise a database could get such a descriptor, and messages
    would be written into it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


if __name__ == "__main__":
    main()
