"""Sessions, as a part of the machine."""

from interlock.core.entry import admission
from interlock.core.part import Part, Wait, ends
from interlock.core.sessions import acts, turns
from interlock.core.sessions.session import Sessions, page
from interlock.model.state import State
from interlock.wire.message import Usage
from interlock.wire.session_request import ActOnSession, AskSessions

SESSIONS = Part(
    name="sessions",
    slices=(Sessions,),
    handlers={ActOnSession: acts.act, Usage: turns.note_usage},
    answers={AskSessions: page},
    needs={ActOnSession: acts.act_needs},
    stages=(admission.admit,),
    begins=(turns.begin,),
    on=((ends, turns.stop_waiting),),
    settles=(turns.settle,),
    waits={State.SCHEDULED: Wait(turns.end_window)},
    loads=(turns.open_all,),
    adopts=(turns.adopt,),
    places=(({State.SCHEDULED}, turns.place),),
    explains=(turns.explain,),
)
