"""Routing, as a part of the machine."""

from interlock.core.part import Part
from interlock.core.routing import dispatch, warm_start, workers
from interlock.core.routing.roster import DEMAND
from interlock.wire.worker_request import ActOnWorker, AskPools, AskWorker, AskWorkers

ROUTING = Part(
    name="routing",
    slices=(warm_start.KeptWorkers,),
    handlers={ActOnWorker: workers.act},
    answers={
        AskWorkers: workers.report_all,
        AskWorker: workers.report_one,
        AskPools: workers.report_pools,
    },
    alarms={DEMAND: dispatch.look_again},
    loads=(warm_start.load,),
    closes=(warm_start.keep,),
)
