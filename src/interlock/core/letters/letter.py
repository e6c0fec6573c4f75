"""Dead letters of runs: written where a run ends, unless its end needs none. `core/bulk/rerun.py` replays them."""

from interlock.core.transition import Pass
from interlock.model.letter import CODE_OF, LONGEST_ERROR, DeadLetter, LetterCode
from interlock.model.run import Run
from interlock.model.state import State


def write_letter(p: Pass, run: Run, code: LetterCode | None = None) -> None:
    """Write the letter of a run. A step has none of its own: its workflow has. A compensation has one."""
    if run.is_step and not run.is_compensation:
        return
    error = (run.error or run.reason)[:LONGEST_ERROR]
    p.keep(DeadLetter(run.id, p.now, code or CODE_OF[run.state], error, run.job_id, run.tenant))


def give_up(p: Pass, run: Run, code: str, text: str) -> None:
    """End a run that could not be done; its dead letter has this code."""
    run.error = text
    p.move(run, State.FAILED, f"{code}: {text}")
    write_letter(p, run, LetterCode(code))
