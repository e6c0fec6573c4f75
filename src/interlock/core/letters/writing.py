"""Dead letters of runs: written where a run ends, unless its end needs none. `bulk/rerun.py` replays them."""

from msgspec.structs import replace

from interlock.core.transition import Pass
from interlock.model.letter import CODE_OF, LONGEST_ERROR, DeadLetter, LetterCode
from interlock.model.run import Run
from interlock.model.state import State


def write_letter(p: Pass, run: Run) -> None:
    error = (run.error or run.reason)[:LONGEST_ERROR]
    p.batch.dead_letters.append(DeadLetter(run.id, p.now, CODE_OF[run.state], error, run.job_id, run.tenant))


def give_up(p: Pass, run: Run, code: str, text: str) -> None:
    """End a run that could not be done; its dead letter has this code."""
    run.error = text
    p.move(run, State.FAILED, f"{code}: {text}")
    p.batch.dead_letters[-1] = replace(p.batch.dead_letters[-1], code=LetterCode(code))
