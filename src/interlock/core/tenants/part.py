"""Tenants, as a part of the machine."""

from msgspec.structs import replace

from interlock.core.part import Part, ends, enters, for_all_or_none, frees_slot, takes_slot
from interlock.core.state import SchedulerState
from interlock.core.tenants.limits import tenants
from interlock.core.tenants.tenant import Tenants
from interlock.core.transition import Pass
from interlock.model.facets import Facets
from interlock.model.run import Now, Run
from interlock.model.state import State
from interlock.wire.lane_request import AskTenants


@for_all_or_none
def _begin(p: Pass, run: Run) -> None:
    known = p.state.of(Tenants)
    if (tenant := known.find(run.tenant)) is not None:
        known[run.tenant] = tenant
        tenant.add(run)
        if tenant.spec.labels:
            run.facets = replace(run.facets or Facets(), labels={**tenant.spec.labels, **run.labels})


@for_all_or_none
def _take_slot(p: Pass, run: Run) -> None:
    if (tenant := p.state.of(Tenants).get(run.tenant)) is not None:
        tenant.holders.add(run.id)


@for_all_or_none
def _free_slot(p: Pass, run: Run) -> None:
    if (tenant := p.state.of(Tenants).get(run.tenant)) is not None:
        tenant.holders.discard(run.id)
        p.state.gates.open[tenant.name] = tenant


@for_all_or_none
def _leave(p: Pass, run: Run) -> None:
    """Count a run no longer that has ended, or is under way."""
    known = p.state.of(Tenants)
    if (tenant := known.get(run.tenant)) is not None:
        tenant.live.discard(run.id)
        if not tenant.live and not tenant.is_declared:
            del known[run.tenant]


def _place(state: SchedulerState, run: Run, now: Now) -> None:
    if (tenant := state.of(Tenants).get(run.tenant)) is not None:
        tenant.add(run)


TENANTS = Part(
    name="tenants",
    slices=(Tenants,),
    answers={AskTenants: tenants},
    begins=(_begin,),
    on=((takes_slot, _take_slot), (frees_slot, _free_slot), (ends, _leave), (enters(State.UNDER_WAY), _leave)),
    places=((frozenset(State), _place),),
    concerns_all=(lambda state: bool(state.of(Tenants)),),
)
