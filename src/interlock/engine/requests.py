"""The requests of clients. `ROUTES` has a line for each kind: its function and its needs."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec

from interlock.core.attempts.log_table import Logs
from interlock.core.explain import explain
from interlock.core.output import Scans
from interlock.core.policy.judge_state import Judging
from interlock.core.policy.report import policy_info
from interlock.core.sessions.session import Session, Sessions, memo_name, read_memo, session_info
from interlock.core.state import SchedulerState
from interlock.core.step import MACHINE
from interlock.engine import catalog
from interlock.engine.cluster import Cluster
from interlock.engine.effects import SenderLink
from interlock.engine.present import Present
from interlock.error import Draining, InterlockError, Refused, RunPruned, StoreUnavailable, UnknownRun
from interlock.model.access import OWNER
from interlock.model.delivery import Delivery
from interlock.model.explanation import MOST_NAMED, Explanation, explain_end, with_deliveries, without_workers
from interlock.model.facets import ProgressInfo
from interlock.model.job_info import Backfilled
from interlock.model.record import Memo, RecordFilter
from interlock.model.run import Run, as_fields, occurrence_id, stats_of
from interlock.model.session import check_key
from interlock.model.state import TERMINAL
from interlock.ports.operations import TreeOperations
from interlock.ports.store import LogEntry, Lookup, Store
from interlock.task_set import TaskSet
from interlock.wire import request as r
from interlock.wire.cluster_request import Announce, AskCluster, HandOver
from interlock.wire.command import Refill
from interlock.wire.delivery_request import BecomeSender, HookAnswered
from interlock.wire.event_request import SendEvent
from interlock.wire.frames import LARGEST
from interlock.wire.letter_request import Replay
from interlock.wire.message import CHUNKS, Message, Problem
from interlock.wire.output_request import AskScanPlan, ScanPlan
from interlock.wire.policy_request import AskPolicy
from interlock.wire.service_request import ActOnService, AskTree, Reload
from interlock.wire.session_request import AskSession

logger = logging.getLogger("interlock.links")

Asker = tuple[str, int]  # a client, and the number of its request


class Requests:
    def __init__(
        self,
        present: Present,
        store: Store,
        sender: SenderLink,
        cluster: Cluster,
        operations: TreeOperations | None,
    ) -> None:
        """`operations` act on the tree that the scheduler is part of, if any."""
        self.present = present
        self.store = store
        self.sender = sender
        self.cluster = cluster
        self.operations = operations
        self.post = present.inbox.post
        self._tell = present.peers.tell
        self.waiting: dict[Asker, str] = {}  # request → run whose end it waits for
        self._watched: dict[str, dict[Asker, None]] = {}  # run → the requests that wait for its end
        self._watchers: set[str] = set()  # clients that get news of every commit
        self._too_early: list[tuple[str, r.Request[Message]]] = []  # requests that wait until the jobs are known
        self._tasks = TaskSet()

    def take(self, name: str, message: Message) -> None:
        """Carry out a request, or answer with an error."""
        try:
            self._take(name, message)
        except Exception as error:  # noqa: BLE001 - `_fail` logs it
            self._fail((name, getattr(message, "request", 0)), error)
            if isinstance(message, r.Submit) and isinstance(error, InterlockError):
                self.present.metrics.count("submits_refused_total", error.code)

    def _take(self, name: str, message: Message) -> None:
        if isinstance(message, r.Forget):
            self._forget((name, message.request))
            return
        if isinstance(message, HookAnswered):
            self.sender.answered(message)
            return
        route = ROUTES.get(type(message), POSTED if isinstance(message, r.ChangeRequest) else None)
        if route is None or not isinstance(message, r.Request):
            raise Refused(f"link: a client does not send {type(message).__name__}")
        if self.present.is_over and not message.repeatable:
            # Nobody would answer, and its sender would be in doubt.
            raise Draining
        needs, carry_out = route
        if needs is not NOTHING and not self.present.available:
            trouble = self.present.trouble
            if type(trouble) is StoreUnavailable and not isinstance(message, r.ChangeRequest):
                raise StoreUnavailable(trouble.why, asked=True)
            raise trouble.with_traceback(None)  # otherwise it would grow with every request
        if needs is JOBS and not self.present.is_settled:
            self._too_early.append((name, message))
            return
        answer = carry_out(self, name, message)
        if isinstance(answer, Message):
            self._tell(name, answer)
        elif answer is not None:
            self._answer_later((name, message.request), answer)

    def settled(self) -> None:
        """Resume the requests that needed the jobs: these are known now, or the store has failed."""
        waiting, self._too_early = self._too_early, []
        for name, message in waiting:
            self.take(name, message)

    def tree_operations(self) -> TreeOperations:
        if self.operations is None:
            raise Refused("services: this scheduler runs none; start it with interlock up")
        return self.operations

    def problem(self, name: str, request: int, error: InterlockError) -> None:
        self._tell(name, Problem(request, error.code, str(error), error.retry_after))

    def gone(self, name: str) -> None:
        """Forget a client that has left."""
        self._watchers.discard(name)
        self.sender.gone(name)
        self._too_early = [waiting for waiting in self._too_early if waiting[0] != name]
        for asker in [asker for asker in self.waiting if asker[0] == name]:
            self._forget(asker)

    def watch(self, name: str, message: r.WatchNews) -> Message:
        (self._watchers.add if message.on else self._watchers.discard)(name)
        return self.present.status(message.request)

    def news(self, position: int, progress: list[r.ProgressRow]) -> None:
        """Send the stored position and new progress to the watching clients, which read the store themselves."""
        if not self._watchers:
            return
        news = r.News(position, progress)
        for name in self._watchers:
            self._tell(name, news)

    def wait_for(self, asker: Asker, run_id: str) -> Coroutine[Any, Any, None] | None:
        self._watched.setdefault(run_id, {})[asker] = None
        self.waiting[asker] = run_id
        return None if run_id in self.present.state.runs else self._find_end(asker, run_id)

    def announce(self, ended: Sequence[Run]) -> None:
        """Answer the requests that wait for these runs."""
        if not self._watched:
            return
        for run in ended:
            for asker in list(self._watched.get(run.id, ())):
                self._tell_end(asker, run)

    def check_watched(self) -> None:
        """After a rebuild, look up the awaited runs that are no longer live."""
        for asker, run_id in list(self.waiting.items()):
            if run_id not in self.present.state.runs:
                self._answer_later(asker, self._find_end(asker, run_id))

    async def _find_end(self, asker: Asker, run_id: str) -> None:
        """Look up a run that is not live. Its end may not be stored yet."""
        while asker in self.waiting:
            writing = self.present.writing
            try:
                run = await self.run(run_id)
            except InterlockError:
                if asker not in self.waiting:
                    return
                if writing is None:
                    self._forget(asker)
                    raise
                run = None
            if run is not None and run.state in TERMINAL:
                self._tell_end(asker, run)
            elif run_id in self.present.state.runs or not self.present.available:
                # A commit will announce its end; after a rebuild, `check_watched` looks again.
                return
            elif writing is None:
                self._forget(asker)
                raise StoreUnavailable("the run has another owner", asked=True)
            else:
                await asyncio.wait([writing])

    def _tell_end(self, asker: Asker, run: Run) -> None:
        if asker in self.waiting:
            self._forget(asker)
            self._tell(asker[0], _report(asker[1], run))

    def _forget(self, asker: Asker) -> None:
        run_id = self.waiting.pop(asker, None)
        if run_id is not None:
            del self._watched[run_id][asker]
            if not self._watched[run_id]:
                del self._watched[run_id]

    async def run(self, run_id: str) -> Run:
        found = await self.store.look_up(Lookup(runs=[run_id], pruned=[run_id]))
        if run_id not in found.runs:
            raise RunPruned(run_id) if run_id in found.pruned else UnknownRun(run_id)
        return found.runs[run_id]

    def _answer_later(self, asker: Asker, work: Coroutine[Any, Any, Message | None]) -> None:
        self._tasks.begin(self._answer(asker, work))

    async def _answer(self, asker: Asker, work: Coroutine[Any, Any, Message | None]) -> None:
        try:
            answer = await work
            if answer is not None:
                self._tell(asker[0], answer)
        except Exception as error:  # noqa: BLE001 - `_fail` logs it
            self._fail(asker, error)

    def _fail(self, asker: Asker, error: Exception) -> None:
        if not isinstance(error, InterlockError):
            logger.error("a request of %s failed", asker[0], exc_info=error)
            error = InterlockError(f"internal error: {error!r}")
        self.problem(*asker, error)

    async def finish(self) -> None:
        """Wait for the answers under way."""
        await self._tasks.end()


def _report(request: int, run: Run, progress: ProgressInfo | None = None) -> r.RunReport:
    fields = as_fields(run)
    if progress is not None:
        fields["progress"] = msgspec.structs.asdict(progress)
    return r.RunReport(request, run.id, run.state, run.reason, run.shown_result, run.error, fields)


def _scan_plan(state: SchedulerState, message: AskScanPlan) -> ScanPlan:
    policy, scanned = state.of(Judging).policy, state.of(Scans).position
    if policy is None or scanned is None:
        return ScanPlan(message.request, 0, None)
    return ScanPlan(message.request, scanned, policy.document.output, policy.digest)


def _latest(lines: Sequence[LogEntry]) -> list[tuple[float, int, str, str, str]]:
    """Return the newest lines that fit into one answer."""
    size, kept = 0, []
    for line in reversed(lines):
        size += len(line.text) * 4
        if size > LARGEST // 4:
            kept.append((line.at, line.attempt, "warning", "earlier lines are left out", ""))
            break
        kept.append((line.at, line.attempt, line.level, line.text, line.logger))
    kept.reverse()
    return kept


def _submit(requests: Requests, name: str, message: r.Submit) -> None:
    # All links of the socket count as one person, so that nobody approves their own run over another link.
    create = catalog.create(message, message.actor or OWNER.name, requests.present.catalog, requests.present.state.jobs)
    requests.post(name, create)


def _send_event(requests: Requests, name: str, message: SendEvent) -> None:
    """Check the run that the event may start as a submit of it would be. A live run gets the event even so."""
    actor, start, fault = message.actor or OWNER.name, message.start, None
    if start is not None:
        submit = r.Submit(0, [r.NewRun(message.workflow, start, message.tenant, idempotency_key=message.key)])
        try:
            start = catalog.create(submit, actor, requests.present.catalog, requests.present.state.jobs).runs[0].payload
        except InterlockError as error:
            fault = Problem(message.request, error.code, str(error))
    requests.post(name, msgspec.structs.replace(message, actor=actor, start=start, fault=fault))


async def _replay(requests: Requests, name: str, message: Replay) -> None:
    """Retry the run, after a check of the arguments that change."""
    if message.arguments:
        run = await requests.run(message.run_id)
        merged = catalog.merged(run, message.arguments, requests.present.catalog, requests.present.state.jobs)
        message = msgspec.structs.replace(message, arguments=merged)
    requests.post(name, message)


def _put(requests: Requests, name: str, message: r.PutJobs) -> None:
    put = catalog.put(message, message.actor or name, requests.present.catalog)
    if requests.operations is not None:
        requests.operations.have_workers()
    requests.post(name, put)


def _backfill(requests: Requests, name: str, message: r.Backfill) -> Coroutine[Any, Any, Message] | None:
    present, actor = requests.present, message.actor or name
    refill = catalog.refill(message, present.state, present.catalog, actor, present.now())
    if message.dry_run:
        return _try_backfill(requests, refill)
    requests.post(name, refill)
    return None


async def _try_backfill(requests: Requests, refill: Refill) -> Message:
    """Say which runs a backfill would make."""
    ids = [occurrence_id(refill.job_id, at, refill.tenant) for at in refill.times]
    found = await requests.store.look_up(Lookup(states=ids, pruned=ids))
    live, known = requests.present.state.runs, found.states.keys() | found.pruned.keys()
    existing = [run_id for run_id in ids if run_id in known or run_id in live]
    created = [run_id for run_id in ids if run_id not in known and run_id not in live]
    return r.ValueAnswer(refill.request, Backfilled(created=created, existing=existing))


def _ask(requests: Requests, name: str, question: r.Ask) -> Coroutine[Any, Any, Message | None] | None:
    if question.wait:
        return requests.wait_for((name, question.request), question.run_id)
    return _run(requests, question)


async def _run(requests: Requests, question: r.Ask) -> Message:
    run, state = await requests.run(question.run_id), requests.present.state
    if (live := state.runs.get(run.id)) is not None:
        # Heartbeats are counted in memory, and stored with the next change.
        run = msgspec.structs.replace(run, heartbeats=max(run.heartbeats, live.heartbeats))
    job = (await requests.store.look_up(Lookup(versions=[run.job_version]))).versions.get(run.job_version)
    stats = stats_of(run, await requests.store.history(run.id), requests.present.now())
    secrets = () if job is None else job.secrets
    detail = r.Detail(run.payload, secrets, requests.present.limits.secret_names, stats)
    return msgspec.structs.replace(_report(question.request, run, state.of(Logs).progress.get(run.id)), detail=detail)


async def _history(requests: Requests, name: str, question: r.AskHistory) -> Message:
    run = await requests.run(question.run_id)
    return r.ValueAnswer(question.request, await requests.store.history(run.id))


async def _explanation(requests: Requests, name: str, question: r.AskExplanation) -> Message:
    present = requests.present
    while (run := present.state.runs.get(question.run_id)) is None:
        writing, stored = present.writing, await requests.run(question.run_id)
        if stored.state in TERMINAL:
            return await _explained(requests, question, explain_end(stored))
        if question.run_id not in present.state.runs:
            if writing is None:
                raise StoreUnavailable("the run has another owner", asked=True)
            # Its end is not stored yet.
            await asyncio.wait([writing])
    faults = {worker: fault.reason for worker, fault in present.peers.faults.items()}
    found = explain(present.state, run, present.clock.now(), faults, question.tenant)
    return await _explained(requests, question, found)


async def _explained(requests: Requests, question: r.AskExplanation, found: Explanation) -> Message:
    if question.tenant is not None:
        found = without_workers(found, requests.present.state.workers)
    page = await requests.store.records(Delivery, RecordFilter(run=question.run_id), None, MOST_NAMED)
    return r.ValueAnswer(question.request, with_deliveries(found, page.records, requests.present.now()))


async def _logs(requests: Requests, name: str, question: r.AskLogs) -> Message:
    run = await requests.run(question.run_id)
    lines = [line for line in await requests.store.logs(run.id) if (line.level == CHUNKS) is question.chunks]
    return r.ValueAnswer(question.request, _latest(lines))


def _query(requests: Requests, name: str, question: r.Request[Message]) -> Message:
    return MACHINE.answers[type(question)](question, requests.present.state, requests.present.clock.now())


async def _session(requests: Requests, name: str, question: AskSession) -> Message:
    """Show a session; one without runs is not in memory, and the store has its memo."""
    check_key("session", question.session)
    key, state = question.key, requests.present.state
    found = state.of(Sessions).get(key)
    if found is None:
        memo = await requests.store.record(Memo, memo_name(*key))
        found = Session(*key, read_memo(None if memo is None else memo.value))
    return r.ValueAnswer(question.request, session_info(state, found, requests.present.now()))


def _value(find: Callable[[Requests, Any], object]) -> Callable[[Requests, str, Any], Message]:
    """Answer with a value that is there."""
    return lambda requests, _, message: r.ValueAnswer(message.request, find(requests, message))


def _progress(requests: Requests, question: r.AskProgress) -> object:
    return requests.present.state.of(Logs).progress.get(question.run_id)


def _metrics(requests: Requests, question: r.AskMetrics) -> object:
    own = [] if requests.operations is None else requests.operations.families()
    return requests.present.families() + requests.cluster.families() + own


def _tree(requests: Requests, question: AskTree) -> object:
    return requests.tree_operations().tree(requests.present.peers.workers, requests.present.peers.faults)


def _policy(requests: Requests, question: AskPolicy) -> object:
    return policy_info(requests.present.state, requests.present.metrics.counts("rule_verdicts_total"))


async def _act(requests: Requests, name: str, message: ActOnService) -> Message:
    child = await requests.tree_operations().act(message.name, message.action, message.actor or name)
    return r.ValueAnswer(message.request, child)


async def _reload(requests: Requests, name: str, message: Reload) -> Message:
    return r.ValueAnswer(message.request, await requests.tree_operations().reload(message.actor or name))


def _announce(requests: Requests, said: Announce) -> object:
    requests.cluster.note(said)
    return requests.cluster.info()


NOTHING, STORE, JOBS = "nothing", "store", "jobs"
"""need of a request: only the process, a working store, or also the jobs of this start"""

# A function returns the answer, a coroutine that returns it, or None if the answer comes later.
Route = tuple[str, Callable[[Requests, str, Any], Message | Coroutine[Any, Any, Message | None] | None]]

POSTED: Route = (JOBS, lambda requests, name, message: requests.post(name, message))
ROUTES: dict[type[Message], Route] = {
    r.Submit: (STORE, _submit),
    SendEvent: (JOBS, _send_event),
    Replay: (JOBS, _replay),
    r.PutJobs: (JOBS, _put),
    r.Backfill: (JOBS, _backfill),
    r.Ask: (STORE, _ask),
    r.AskHistory: (STORE, _history),
    r.AskExplanation: (JOBS, _explanation),
    r.AskLogs: (STORE, _logs),
    AskSession: (JOBS, _session),
    **dict.fromkeys(MACHINE.answers, (JOBS, _query)),
    r.AskStatus: (NOTHING, lambda requests, _, message: requests.present.status(message.request)),
    r.AskProgress: (NOTHING, _value(_progress)),
    r.AskMetrics: (NOTHING, _value(_metrics)),
    r.WatchNews: (NOTHING, Requests.watch),
    AskScanPlan: (JOBS, lambda requests, _, message: _scan_plan(requests.present.state, message)),
    BecomeSender: (JOBS, lambda requests, name, message: requests.sender.register(name, message)),
    AskPolicy: (JOBS, _value(_policy)),
    AskTree: (NOTHING, _value(_tree)),
    ActOnService: (NOTHING, _act),
    Reload: (NOTHING, _reload),
    AskCluster: (NOTHING, _value(lambda requests, _: requests.cluster.info())),
    HandOver: (STORE, _value(lambda requests, order: requests.cluster.hand_over(order.node))),
    Announce: (NOTHING, _value(_announce)),
}
"""any other `Change` goes unchanged to its handler in `core/step.py`, which answers it"""
