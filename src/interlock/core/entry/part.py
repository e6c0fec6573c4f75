"""The entry, as a part of the machine: new runs, and actions on those that wait."""

from interlock.core.entry import actions, admission, lineage
from interlock.core.facts import needs_run
from interlock.core.part import Part, Wait, ends
from interlock.core.state import ATTEMPT_RUNTIME, RUNTIME
from interlock.model.state import State
from interlock.wire.command import Create
from interlock.wire.run_request import HoldRun, ReleaseRun

ENTRY = Part(
    name="entry",
    slices=(lineage.Proofs,),
    handlers={Create: admission.create, HoldRun: actions.act, ReleaseRun: actions.act},
    needs={Create: admission.create_needs, HoldRun: needs_run, ReleaseRun: needs_run},
    stages=(actions.has_expired, actions.stays_held),
    on=((ends, admission.free_key),),
    waits={State.STARTING: Wait(actions.end_start, lambda run: run.stop is None, lambda run, job: job.start_timeout)},
    looks={State.PENDING: lambda p, run: p.entering.append(run)},
    spans={RUNTIME: actions.overrun, ATTEMPT_RUNTIME: actions.overrun},
    loads=(lineage.load,),
    explains=(actions.explain,),
)
