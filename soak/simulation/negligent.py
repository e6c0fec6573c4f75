"""An engine that forgets what it should go on with."""

import msgspec

from interlock.core.audit import AUDIT
from interlock.core.bulk.table import Bulks
from interlock.core.lanes.gate import GATE
from interlock.core.routing.roster import DEMAND
from interlock.core.sessions.session import Sessions
from interlock.engine.engine import Engine
from interlock.model.state import State
from soak.simulation.scenario import Sabotage


class NegligentEngine(Engine):
    """Does not go on with the bulk requests that were under way, or lets go of runs that are held, or forgets
    whose turn it was in a session, or how much of its window this has used, or loses runs or their timers."""

    sabotage = Sabotage()

    async def start(self) -> None:
        await super().start()
        if self.sabotage.engine_forgets_bulks:
            self.state.of(Bulks).walks.clear()
        elif self.sabotage.engine_forgets_turns:
            for session in self.state.of(Sessions).values():
                session.active.clear()
        elif self.sabotage.engine_forgets_holds:
            for run in self.state.runs.values():
                run.facets = None if run.facets is None else msgspec.structs.replace(run.facets, hold=None)

    async def _pass(self) -> None:
        if self.sabotage.engine_forgets_usage:
            for session in self.state.of(Sessions).values():
                session.memo = msgspec.structs.replace(session.memo, usage=(0, 0))
        await super()._pass()
        if self.sabotage.engine_loses_timers:
            self.state.timers.heap.clear()
            self.state.timers.spans = [span for span in self.state.timers.spans if span[3] in (GATE, AUDIT, DEMAND)]
        if self.sabotage.engine_loses_runs:
            waiting = [run.id for run in self.state.runs.values() if run.state is State.RETRYING]
            for run_id in waiting:
                del self.state.runs[run_id]
