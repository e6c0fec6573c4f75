"""The requests of clients. `WAYS` has a line for each kind: how it is carried out, and what it needs."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from interlock.core import job_queries
from interlock.core.state import SchedulerState
from interlock.engine import intake
from interlock.engine.catalog import Catalog
from interlock.model import request as r
from interlock.model.error import InterlockError, Refused, RunPruned, StoreUnavailable, UnknownRun
from interlock.model.frames import LARGEST
from interlock.model.message import Message, Problem
from interlock.model.run import Run, as_fields
from interlock.model.state import TERMINAL
from interlock.ports.operations import Operations
from interlock.ports.store import LogEntry, Store
from interlock.task_set import TaskSet

if TYPE_CHECKING:
    from interlock.engine.engine import Engine

logger = logging.getLogger("interlock.links")

Asker = tuple[str, int]  # a client, and the number of its request


class Requests:
    def __init__(self, engine: "Engine", catalog: Catalog, store: Store, tell: Callable[[str, Message], None]) -> None:
        self.engine = engine
        self.catalog = catalog
        self.store = store
        self.tell = tell
        self.operations: Operations | None = None  # the tree that the scheduler is part of, if any
        self.waiting: dict[Asker, str] = {}  # request → the run whose end it waits for
        self._watched: dict[str, dict[Asker, None]] = {}  # run → the requests that wait for its end
        self._watchers: set[str] = set()  # clients that get news of every commit
        self._too_early: list[tuple[str, r.Request[Message]]] = []
        """requests that need the jobs, and came before these were known"""
        self._tasks = TaskSet()

    def take(self, name: str, message: Message) -> None:
        """Carry out a request, or answer with an error."""
        try:
            self._take(name, message)
        except InterlockError as error:
            self.problem(name, getattr(message, "request", 0), error)
            if isinstance(message, r.Submit):
                self.engine.metrics.refused(error.code)
        except Exception as error:
            logger.exception("a message of %s could not be handled", name)
            self.problem(name, getattr(message, "request", 0), InterlockError(f"internal error: {error!r}"))

    def _take(self, name: str, message: Message) -> None:
        if isinstance(message, r.Forget):
            self._forget((name, message.request))
            return
        way = WAYS.get(type(message), POSTED if isinstance(message, r.Change) else None)
        if way is None or not isinstance(message, r.Request):
            raise Refused(f"link: a client does not send {type(message).__name__}")
        if way.needs is not NOTHING and not self.engine.available:
            trouble = self.engine.trouble
            if type(trouble) is StoreUnavailable and not isinstance(message, r.Change):
                raise StoreUnavailable(trouble.why, asked=True)
            raise trouble
        if way.needs is JOBS and not self.engine.is_settled:
            self._too_early.append((name, message))
        else:
            way.take(self, name, message)

    def settled(self) -> None:
        """Go on with the requests that needed the jobs; these are known now, or the store has failed."""
        waiting, self._too_early = self._too_early, []
        for name, message in waiting:
            self.take(name, message)

    def tree_operations(self) -> Operations:
        if self.operations is None:
            raise Refused("services: this scheduler has none; start it with interlock up")
        return self.operations

    def problem(self, name: str, request: int, error: InterlockError) -> None:
        self.tell(name, Problem(request, error.code, str(error)))

    def gone(self, name: str) -> None:
        """Forget a client that has left."""
        self._watchers.discard(name)
        self._too_early = [one for one in self._too_early if one[0] != name]
        for asker in [one for one in self.waiting if one[0] == name]:
            self._forget(asker)

    def watch(self, name: str, message: r.Watch) -> Message:
        (self._watchers.add if message.on else self._watchers.discard)(name)
        return self.engine.status(message.request)

    def news(self, position: int, progressed: Iterable[Run]) -> None:
        """Send the stored position and new progress to the watching clients, which read the store themselves."""
        if not self._watchers:
            return
        known = self.engine.state.progress
        progress = [(run.id, run.job_id, run.tenant, *known[run.id]) for run in progressed if run.id in known]
        news = r.News(position, progress)
        for name in self._watchers:
            self.tell(name, news)

    # ── runs ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def wait_for(self, name: str, question: r.Ask) -> None:
        asker = (name, question.request)
        self._watched.setdefault(question.run_id, {})[asker] = None
        self.waiting[asker] = question.run_id
        if question.run_id not in self.engine.state.runs:
            self.do(asker, self._find_end(asker, question))

    def announce(self, ended: Sequence[Run]) -> None:
        """Answer the requests that wait for these runs."""
        if not self._watched:
            return
        for run in ended:
            for asker in list(self._watched.get(run.id, ())):
                self._tell_end(asker, run)

    def check_watched(self) -> None:
        """Look again for awaited runs that are no longer live after a rebuild."""
        for asker, run_id in list(self.waiting.items()):
            if run_id not in self.engine.state.runs:
                self.do(asker, self._find_end(asker, r.Ask(asker[1], run_id, True)))

    async def _find_end(self, asker: Asker, question: r.Ask) -> None:
        """Look up a run that is not live. If it has just ended, its end may not be stored yet."""
        while asker in self.waiting:
            writing = self.engine.writing
            try:
                run = await self.run(question.run_id)
            except InterlockError:
                if asker not in self.waiting:
                    return
                if writing is None:
                    self._forget(asker)
                    raise
                run = None
            if run is not None and run.state in TERMINAL:
                self._tell_end(asker, run)
            elif question.run_id in self.engine.state.runs or not self.engine.available:
                # Its end will be announced; after a rebuild `check_watched` looks again.
                return
            elif writing is None:
                self._forget(asker)
                raise StoreUnavailable("the run has another owner", asked=True)
            else:
                await asyncio.wait([writing])

    def _tell_end(self, asker: Asker, run: Run) -> None:
        if asker in self.waiting:
            self._forget(asker)
            self.tell(asker[0], _report(asker[1], run))

    def _forget(self, asker: Asker) -> None:
        run_id = self.waiting.pop(asker, None)
        if run_id is not None:
            del self._watched[run_id][asker]
            if not self._watched[run_id]:
                del self._watched[run_id]

    async def run(self, run_id: str) -> Run:
        run = await self.store.run(run_id)
        if run is None:
            pruned = await self.store.tenant_of_pruned(run_id)
            raise UnknownRun(run_id) if pruned is None else RunPruned(run_id)
        return run

    # ── answers beside the loop ─────────────────────────────────────────────────────────────────────────────────────

    def do(self, asker: Asker, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.begin(self._guarded(asker, work))

    async def _guarded(self, asker: Asker, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except InterlockError as error:
            self.problem(*asker, error)
        except Exception as error:
            logger.exception("a request of %s could not be carried out", asker[0])
            self.problem(*asker, InterlockError(f"internal error: {error!r}"))

    async def finish(self) -> None:
        """Wait for the answers under way."""
        await self._tasks.end()


def _report(request: int, run: Run, progress: tuple[float, str] | None = None) -> r.RunReport:
    fields = as_fields(run)
    if progress is not None:
        fields["progress"] = {"percent": progress[0], "text": progress[1]}
    return r.RunReport(request, run.id, run.state, run.reason, run.result, run.error, fields)


def _latest(lines: Sequence[LogEntry]) -> list[tuple[float, int, str, str]]:
    """Return the newest lines that fit into one answer."""
    size, kept = 0, []
    for line in reversed(lines):
        size += len(line.text) * 4
        if size > LARGEST // 4:
            kept.append((line.at, line.attempt, "warning", "earlier lines are left out"))
            break
        kept.append((line.at, line.attempt, line.level, line.text))
    kept.reverse()
    return kept


# ── the table ───────────────────────────────────────────────────────────────────────────────────────────────────────

NOTHING, STORE, JOBS = "nothing", "store", "jobs"
"""what a request needs: only the process, a working store, or also the jobs of this start"""


class Way(NamedTuple):
    take: Callable[[Requests, str, Any], None]
    needs: str


def _tells(find: Callable[[Requests, str, Any], Message], needs: str = NOTHING) -> Way:
    """Answer at once from memory."""
    return Way(lambda requests, name, message: requests.tell(name, find(requests, name, message)), needs)


def _knows(find: Callable[[Any, SchedulerState, float], Message]) -> Way:
    """Answer at once from the state of the scheduler."""
    return _tells(lambda one, _, message: find(message, one.engine.state, one.engine.now()), JOBS)


def _awaits(start: Callable[[Requests, str, Any], Awaitable[Message]], needs: str) -> Way:
    """Answer beside the loop, as soon as the answer is found."""

    def take(requests: Requests, name: str, message: Any) -> None:
        answer = start(requests, name, message)

        async def work() -> None:
            requests.tell(name, await answer)

        requests.do((name, message.request), work())

    return Way(take, needs)


def _reads(find: Callable[[Requests, Any], Awaitable[Message]]) -> Way:
    """Answer from the store."""
    return _awaits(lambda requests, _, message: find(requests, message), STORE)


def _posts(make: Callable[[Requests, Any, str], object] | None = None, needs: str = JOBS) -> Way:
    """Post the request as it is, or the command that `make` makes of it."""

    def take(requests: Requests, name: str, message: Any) -> None:
        command = message if make is None else make(requests, message, message.actor or name)
        requests.engine.post(name, command)

    return Way(take, needs)


def _operates(act: Callable[[Operations, Any, str], Awaitable[Message]]) -> Way:
    """Let the tree carry it out, which needs no store and takes its own time."""
    return _awaits(lambda one, name, message: act(one.tree_operations(), message, message.actor or name), NOTHING)


def _ask(requests: Requests, name: str, question: r.Ask) -> None:
    if question.wait:
        requests.wait_for(name, question)
    else:
        _reads(_run).take(requests, name, question)


async def _run(requests: Requests, question: r.Ask) -> Message:
    run, state = await requests.run(question.run_id), requests.engine.state
    if (live := state.runs.get(run.id)) is not None:
        # Heartbeats are counted in memory, and stored with the next change.
        run = msgspec.structs.replace(run, heartbeats=max(run.heartbeats, live.heartbeats))
    return _report(question.request, run, state.progress.get(run.id))


async def _history(requests: Requests, question: r.AskHistory) -> Message:
    run = await requests.run(question.run_id)
    return r.HistoryReport(question.request, await requests.store.history(run.id))


async def _logs(requests: Requests, question: r.AskLogs) -> Message:
    run = await requests.run(question.run_id)
    return r.LogReport(question.request, _latest(await requests.store.logs(run.id)))


def _metrics(requests: Requests, name: str, question: r.AskMetrics) -> Message:
    own = [] if requests.operations is None else requests.operations.families()
    return r.MetricsReport(question.request, requests.engine.families() + own)


def _put(requests: Requests, message: r.PutJobs, actor: str) -> object:
    if requests.operations is not None:
        requests.operations.have_workers()
    return intake.put(message, actor)


async def _act(operations: Operations, message: r.ActOnService, actor: str) -> Message:
    return r.ServiceReport(message.request, await operations.act(message.name, message.action, actor))


async def _reload(operations: Operations, message: r.Reload, actor: str) -> Message:
    return r.ReloadReport(message.request, await operations.reload(actor))


POSTED = _posts()
WAYS: dict[type[Message], Way] = {
    r.Submit: _posts(
        lambda one, message, actor: intake.create(message, actor, one.catalog, one.engine.state.jobs), STORE
    ),
    r.PutJobs: _posts(_put),
    r.Backfill: _posts(
        lambda one, message, actor: intake.refill(message, one.engine.state, one.catalog, actor, one.engine.now())
    ),
    r.Ask: Way(_ask, STORE),
    r.AskHistory: _reads(_history),
    r.AskLogs: _reads(_logs),
    **{kind: _knows(find) for kind, find in job_queries.ANSWERS.items()},
    r.AskStatus: _tells(lambda one, _, message: one.engine.status(message.request)),
    r.AskProgress: _tells(
        lambda one, _, message: r.ProgressReport(message.request, one.engine.state.progress.get(message.run_id))
    ),
    r.AskMetrics: _tells(_metrics),
    r.Watch: _tells(Requests.watch),
    r.AskTree: _tells(lambda one, _, message: r.TreeReport(message.request, one.tree_operations().tree())),
    r.ActOnService: _operates(_act),
    r.Reload: _operates(_reload),
}
"""any other `Change` is posted as it is, and its handler in `core/step.py` answers it"""
