"""Attempts, as a part of the machine."""

from interlock.core.attempts import liveness, logs, settle
from interlock.core.attempts.log_table import Logs
from interlock.core.attempts.silence import Silence
from interlock.core.part import Part, Wait, always, leaves
from interlock.core.timers import go_on, look_at_delay
from interlock.model.state import ON_WORKER, State
from interlock.wire import command, message
from interlock.wire.effect import ReadInputs

ATTEMPTS = Part(
    name="attempts",
    slices=(Logs, Silence),
    handlers={
        message.Starting: settle.starting,
        message.Started: settle.started,
        message.Finished: settle.finished,
        message.Lost: settle.lost,
        message.Returned: settle.returned,
        message.Heartbeat: liveness.heartbeat,
        message.Load: liveness.note_load,
        message.Leaving: liveness.worker_leaving,
        message.Progress: logs.progress,
        message.LogMessage: logs.log_line,
        message.Checkpoint: logs.checkpoint,
        command.HandedOver: liveness.handed_over,
        command.WorkerUp: liveness.worker_up,
        command.WorkerDown: liveness.worker_down,
        command.Stalled: liveness.stalled,
    },
    appliers={ReadInputs: liveness.inputs_read},
    on=((leaves(State.STARTING), settle.leave_start),),
    settles=(logs.forget,),
    waits={State.RETRYING: Wait(go_on, always, settle.longest_wait)},
    looks={State.RETRYING: look_at_delay},
    loads=(logs.load,),
    places=((ON_WORKER, liveness.place),),
    explains=(liveness.explain,),
    hears=(liveness.check_silence,),
)
