"""Jobs, as a part of the machine."""

from interlock.core.facts import Snapshot
from interlock.core.jobs import changes, queries
from interlock.core.jobs.declared import DeclaredJobs
from interlock.core.part import Part
from interlock.core.state import SchedulerState
from interlock.core.transition import Pass
from interlock.model.child_info import KeptService
from interlock.model.job import StoredJob
from interlock.model.run import Now
from interlock.wire.command import Define, NoteServices, Put, Refill, StartDraining
from interlock.wire.request import AskJob, AskJobs, AskNext, AskTimetable, DropJob, SetPaused


def _load(state: SchedulerState, snapshot: Snapshot, now: Now) -> None:
    state.jobs = {stored.id: stored.job for stored in snapshot.of(StoredJob)}
    state.versions = {job.version: job for job in snapshot.jobs}


def _start_draining(p: Pass, origin: str, command: StartDraining) -> None:
    p.state.draining = True


def _note_services(p: Pass, origin: str, command: NoteServices) -> None:
    for service, kept in command.kept:
        if kept is None:
            p.forget(KeptService, service)
        else:
            p.keep(KeptService(service, kept))
    p.batch.service_log += command.lines


JOBS = Part(
    name="jobs",
    slices=(DeclaredJobs,),
    handlers={
        Define: changes.define,
        Put: changes.put,
        Refill: changes.refill,
        SetPaused: changes.pause,
        DropJob: changes.drop,
        StartDraining: _start_draining,
        NoteServices: _note_services,
    },
    answers={
        AskJobs: queries.page,
        AskJob: queries.one,
        AskNext: queries.next_times,
        AskTimetable: queries.timetable,
    },
    needs={Define: changes.needs_latest, Put: changes.needs_latest, Refill: changes.needs_states},
    records=(StoredJob,),
    loads=(_load,),
    hears=(changes.adopt_changes,),
)
