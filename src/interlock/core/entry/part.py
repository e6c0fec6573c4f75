"""The entry, as a part of the machine: new runs, and actions on those that wait."""

from interlock.core.entry import actions, admission, lineage
from interlock.core.part import Part, ends
from interlock.core.state import ATTEMPT_RUNTIME, RUNTIME
from interlock.model.state import State
from interlock.wire.command import Create
from interlock.wire.letter_request import Replay

ENTRY = Part(
    name="entry",
    slices=(lineage.Proofs,),
    handlers={Create: admission.create, Replay: actions.act},
    needs={Create: admission.create_needs, Replay: actions.needs_run},
    stages=(actions.has_expired, actions.stays_held),
    on=((ends, admission.free_key),),
    looks={State.PENDING: lambda p, run: p.entering.append(run)},
    spans={RUNTIME: actions.overrun, ATTEMPT_RUNTIME: actions.overrun},
    loads=(lineage.load,),
    explains=(actions.explain,),
)
