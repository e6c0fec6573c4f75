"""Dead letters that somebody drops. They are written where a run ends (`transition.py`), and replayed by `rerun.py`."""

from interlock.core.facts import Needs
from interlock.core.state import SchedulerState
from interlock.core.transition import Pass
from interlock.model.letter_request import DropLetters, DroppedReport


def needs_letters(state: SchedulerState, command: DropLetters, needs: Needs) -> None:
    if command.letter_id is None:
        needs.letters[command.wanted] = None


def drop(p: Pass, origin: str, command: DropLetters) -> None:
    """Drop one letter, or the page that was read; a repeated request goes on with the rest."""
    one = command.letter_id
    found, more = p.facts.letters[command.wanted] if one is None else ([one], False)
    p.batch.dropped_letters += found
    p.answers.append((origin, DroppedReport(command.request, len(found), more)))
