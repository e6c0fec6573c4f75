"""Dead letters, as a part of the machine."""

from interlock.core.letters import letter, requests
from interlock.core.part import Part, enters
from interlock.model.letter import CODE_OF
from interlock.wire.letter_request import DropLetters
from interlock.wire.message import Unread

LETTERS = Part(
    name="letters",
    handlers={DropLetters: requests.drop, Unread: requests.unread},
    needs={DropLetters: requests.needs_letters},
    on=((enters(*CODE_OF), letter.write_letter),),
)
