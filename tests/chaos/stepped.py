"""`interlock` with a wall clock that a file sets ahead or back, in this process alone; its other clocks go on."""

import os
import time
from pathlib import Path

CLOCK = "CHAOS_CLOCK"
"""the variable that names the file"""
EVERY = 0.02
"""seconds between two looks at it"""


def step_with(file: Path) -> None:
    real, next_look, offset = time.time, 0.0, 0.0

    def stepped() -> float:
        nonlocal next_look, offset
        if time.monotonic() >= next_look:
            next_look, offset = time.monotonic() + EVERY, float(file.read_text())
        return real() + offset

    time.time = stepped


if __name__ == "__main__":
    step_with(Path(os.environ[CLOCK]))
    from interlock.cli.main import main

    main()
