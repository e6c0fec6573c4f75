"""The scheduler's side of every link: who is there, what they ask, and what they are told."""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, cast

from interlock.core.decisions import Backfilled, BulkStarted, Cancelling, Created, Jobs
from interlock.engine import intake, job_queries, logs, requests
from interlock.engine.catalog import Catalog
from interlock.model import message as m
from interlock.model import request as r
from interlock.model.command import CancelRun, WorkerDown, WorkerUp
from interlock.model.error import BadValue, InterlockError, Refused, RunPruned, StoreUnavailable, UnknownRun
from interlock.model.frames import LARGEST
from interlock.model.job import NAME
from interlock.model.run import Run, as_fields
from interlock.model.state import TERMINAL
from interlock.ports.bus import Endpoint, Peer
from interlock.ports.operations import Operations
from interlock.ports.store import LogEntry, Store

if TYPE_CHECKING:
    from interlock.engine.engine import Engine

logger = logging.getLogger("interlock.links")

Question = r.Ask | r.AskHistory | r.AskLogs
WORKER_MESSAGES = frozenset(
    {m.Started, m.Finished, m.Lost, m.Returned, m.Heartbeat, m.Progress, m.LogLine, m.Checkpoint, m.Leaving}
)


class Desk(Endpoint):
    def __init__(self, engine: "Engine", catalog: Catalog, store: Store, instance: str) -> None:
        self._engine = engine
        self._catalog = catalog
        self._store = store
        self._instance = instance
        self._names: dict[Peer, str] = {}
        """every peer that has introduced itself"""
        self._workers: dict[str, Peer] = {}
        self._joined: dict[str, Peer] = {}
        """workers whose return is stored; dispatches decided before a worker rejoined must not go to its new link"""
        self._links: dict[str, int] = {}
        """worker → the number of its latest link"""
        self._clients: dict[str, Peer] = {}
        self._paused: list[Peer] = []
        self._watched: dict[str, dict[tuple[str, int], None]] = {}
        """run → who waits for its end, and under which number"""
        self.waiting: dict[tuple[str, int], str] = {}
        """the same the other way round"""
        self._watchers: set[str] = set()
        """the clients that are told of every commit"""
        self._count = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._too_early: list[tuple[str, m.Message]] = []
        """what is about jobs, and came before it was known which there are"""
        self.questions: list[tuple[str, Question]] = []
        self._taken: set[tuple[str, int]] = set()
        """questions that a pass has taken and not yet answered; what is forgotten meanwhile is no longer in it"""
        self.operations: Operations | None = None
        """the tree that the scheduler is a part of, if it is part of one"""

    # ── links ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def opened(self, peer: Peer) -> None:
        pass

    def closed(self, peer: Peer) -> None:
        name = self._names.pop(peer, None)
        if name is None:
            return
        if self._workers.get(name) is peer:
            del self._workers[name]
            del self._links[name]
            self._joined.pop(name, None)
            self._engine.post(name, WorkerDown(name, False, f"worker {name} is not connected"))
        elif self._clients.get(name) is peer:
            del self._clients[name]
            self._watchers.discard(name)
            if peer in self._paused:
                self._paused.remove(peer)
            self._forget_questions(name)

    def _forget_questions(self, name: str) -> None:
        self.questions = [one for one in self.questions if one[0] != name]
        self._taken = {one for one in self._taken if one[0] != name}
        for other, request in [one for one in self.waiting if one[0] == name]:
            self._forget(other, request)

    def _forget(self, name: str, request: int) -> None:
        """Nobody waits for this answer any more."""
        self._taken.discard((name, request))
        run_id = self.waiting.pop((name, request), None)
        if run_id is None:
            self.questions = [one for one in self.questions if (one[0], one[1].request) != (name, request)]
        else:
            del self._watched[run_id][name, request]
            if not self._watched[run_id]:
                del self._watched[run_id]

    def received(self, peer: Peer, messages: Sequence[m.Message]) -> None:
        name = self._names.get(peer)
        if name is None:
            self._introduce(peer, messages[0])
            name = self._names.get(peer)
            messages = messages[1:]
            if name is None:
                return
        if name in self._clients:
            self._from_client(name, peer, messages)
        elif self._workers.get(name) is peer:
            self._from_worker(name, peer, messages)

    def _introduce(self, peer: Peer, message: m.Message) -> None:
        try:
            if isinstance(message, m.Hello):
                self._welcome_worker(peer, message)
            elif isinstance(message, m.Greeting):
                _check_protocol(message.protocol)
                self._count += 1
                name = f"client-{self._count}"
                self._names[peer] = name
                self._clients[name] = peer
            else:
                raise Refused(f"link: the first message must introduce the sender, not be {type(message).__name__}")
        except InterlockError as error:
            peer.send([m.Problem(0, error.code, str(error))])
            peer.close()

    def _welcome_worker(self, peer: Peer, hello: m.Hello) -> None:
        _check_protocol(hello.protocol)
        name = hello.worker_id
        if not NAME.fullmatch(name) or name.startswith("client-"):
            raise BadValue("worker_id", name, "a name of letters, digits, '_', '-' and '.', up to 64 long")
        other = self._workers.get(name)
        if other is not None:
            if other.process != peer.process:
                raise Refused(f"worker_id: {name!r} is taken by another worker")
            self._names.pop(other, None)
            other.close()
        peer_is_stray = bool(hello.instance) and hello.instance != self._instance
        self._names[peer] = name
        self._workers[name] = peer
        self._joined.pop(name, None)
        self._count += 1
        link = self._links[name] = self._count
        up = WorkerUp(name, hello.slots, hello.processes, frozenset(hello.jobs), hello.held, peer_is_stray, link)
        self._engine.post(name, up)
        limits = self._engine.settings.limits
        peer.send([m.Welcome(limits.heartbeat_interval, self._engine.elapsed(), limits.silence)])
        peer.on_process_end(lambda: self.worker_died(name, peer.process))
        if peer_is_stray:
            logger.info("worker %s belongs to an earlier start: it finishes what it has and leaves", name)
            peer.send([m.Drain()])

    def worker_died(self, name: str, process: str = "") -> None:
        successor = self._workers.get(name)
        # A new process of that name has said what it holds: nothing of the dead one is left to lose.
        if successor is None or successor.process == process:
            self._engine.post(name, WorkerDown(name, True, f"worker {name} died"))

    def _from_worker(self, name: str, peer: Peer, messages: Sequence[m.Message]) -> None:
        self._engine.post_all([(name, message) for message in messages if type(message) in WORKER_MESSAGES])
        for message in messages:
            kind = type(message)
            if kind is m.Heartbeat:
                logs.beat(name, cast(m.Heartbeat, message), self._engine.state)
            elif kind not in WORKER_MESSAGES:
                logger.warning("worker %s sent a %s", name, kind.__name__)
        if self._engine.is_behind(10.0):
            self._hold(peer)

    def _from_client(self, name: str, peer: Peer, messages: Sequence[m.Message]) -> None:
        for message in messages:
            try:
                self._take(name, message)
            except InterlockError as error:
                self.problem(name, getattr(message, "request", 0), error)
                if isinstance(message, r.Submit):
                    self._engine.metrics.refused(error.code)
            except Exception as error:
                logger.exception("a message of %s could not be handled", name)
                self.problem(name, getattr(message, "request", 0), InterlockError(f"internal error: {error!r}"))
        if self._engine.is_behind():
            self._hold(peer)

    def settled(self) -> None:
        """It is known now which jobs there are: go on with what is about them."""
        waiting, self._too_early = self._too_early, []
        for name, message in waiting:
            if name in self._clients:
                self._from_client(name, self._clients[name], [message])

    def _take(self, name: str, message: m.Message) -> None:
        if isinstance(message, r.Forget):
            self._forget(name, message.request)
        elif not self._engine.is_settled and isinstance(message, (*job_queries.QUESTIONS, *requests.KINDS)):
            self._too_early.append((name, message))
        elif isinstance(message, (r.ActOnService, r.Reload)):
            self._do(self._operate(name, message))
        elif (answer := self._known(name, message)) is not None:
            self._tell(name, answer)
        elif not self._engine.available:
            raise _unread(self._engine.trouble) if isinstance(message, Question) else self._engine.trouble
        elif isinstance(message, r.Submit):
            intake.check(message, self._catalog, self._engine.state.jobs)
            self._engine.post(name, intake.to_command(message, message.actor or name))
        elif isinstance(message, r.Cancel):
            self._cancel(name, message)
        elif isinstance(message, Question):
            self._ask(name, message)
        elif isinstance(message, requests.KINDS):
            self._change(name, message)
        else:
            raise Refused(f"link: a client does not send {type(message).__name__}")

    def _cancel(self, name: str, message: r.Cancel) -> None:
        if message.run_id in self._engine.state.runs:
            actor = message.actor or name
            self._engine.post(name, CancelRun(message.request, message.run_id, message.reason, actor))
        else:
            self.ask_state(name, message.request, message.run_id)

    def _change(self, name: str, message: requests.Change) -> None:
        self._engine.post(name, requests.command_of(message, message.actor or name, self._engine, self._catalog))
        if isinstance(message, r.PutJobs) and self.operations is not None:
            self.operations.have_workers()

    def _known(self, name: str, message: m.Message) -> m.Message | None:
        """The answer to what is not stored, and so can be told at any time."""
        if isinstance(message, r.Watch):
            (self._watchers.add if message.on else self._watchers.discard)(name)
            return self._engine.status(message.request)
        if isinstance(message, r.AskStatus):
            return self._engine.status(message.request)
        if isinstance(message, r.AskProgress):
            return r.ProgressReport(message.request, self._engine.state.progress.get(message.run_id))
        if isinstance(message, r.AskMetrics):
            families = self._engine.families()
            return r.MetricsReport(
                message.request, families if self.operations is None else families + self.operations.families()
            )
        if isinstance(message, job_queries.QUESTIONS) and self._engine.available:
            return job_queries.answer(message, self._engine.state, self._catalog, self._engine.now())
        if isinstance(message, r.AskTree) and self.operations is not None:
            return r.TreeReport(message.request, self.operations.tree())
        return None

    def _hold(self, peer: Peer) -> None:
        if peer not in self._paused:
            peer.pause()
            self._paused.append(peer)

    def relieve(self) -> None:
        """Let paused clients go on once the backlog is worked off."""
        if self._paused and not self._engine.is_behind(0.5):
            for peer in self._paused:
                peer.resume()
            self._paused.clear()

    def drop_workers(self) -> None:
        """Break the workers' links; each comes back and says what it holds."""
        self._joined.clear()
        self._links.clear()
        for name, peer in list(self._workers.items()):
            del self._workers[name]
            self._names.pop(peer, None)
            peer.close()

    def joined(self, up: WorkerUp) -> None:
        if up.worker_id in self._workers and self._links[up.worker_id] == up.link:
            self._joined[up.worker_id] = self._workers[up.worker_id]

    def worker_names(self) -> list[str]:
        return list(self._workers)

    # ── answers ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def send_to_worker(self, worker_id: str, messages: Sequence[m.Message]) -> bool:
        peer = self._joined.get(worker_id)
        if peer is None:
            return False
        peer.send(messages)
        # Work goes out before the answers do: it has the longer way.
        peer.flush()
        return True

    def _tell(self, name: str, message: m.Message) -> None:
        peer = self._clients.get(name)
        if peer is not None:
            peer.send([message])

    def problem(self, name: str, request: int, error: InterlockError) -> None:
        self._tell(name, m.Problem(request, error.code, str(error)))

    def accepted(self, name: str, answer: Created) -> None:
        self._tell(name, r.Accepted(answer.request, answer.run_ids))

    def backfilled(self, name: str, answer: Backfilled) -> None:
        self._tell(name, r.BackfillReport(answer.request, answer.created, answer.existing))

    def about_jobs(self, name: str, answer: Jobs) -> None:
        self._tell(name, job_queries.jobs_report(answer.request, answer.job_ids, self._engine.state, self._catalog))

    def cancelling(self, name: str, answer: Cancelling | BulkStarted) -> None:
        if isinstance(answer, BulkStarted):
            self._tell(name, r.BulkReport(answer.request, answer.bulk))
        else:
            self._tell(name, r.RunReport(answer.request, answer.run_id, answer.state, "", None, None, {}))

    def announce(self, ended: Sequence[Run]) -> None:
        """Tell those who wait for these runs."""
        if not self._watched:
            return
        for run in ended:
            for name, request in self._watched.pop(run.id, ()):
                self.waiting.pop((name, request), None)
                self._tell(name, self._report(request, run))

    def news(self, position: int, progressed: Sequence[Run]) -> None:
        """Tell those who watch how far the store has come, and of progress. It is for them to read what is there."""
        if not self._watchers:
            return
        known = self._engine.state.progress
        progress = [(run.id, run.job_id, run.tenant, *known[run.id]) for run in progressed if run.id in known]
        news = r.News(position, progress)
        for name in self._watchers:
            self._tell(name, news)

    def _report(self, request: int, run: Run) -> r.RunReport:
        return r.RunReport(request, run.id, run.state, run.reason, run.result, run.error, as_fields(run))

    # ── questions, answered between passes so that they see what is committed ───────────────────────────────────────

    def _ask(self, name: str, question: Question) -> None:
        self.questions.append((name, question))
        self._engine.wake()

    def ask_state(self, name: str, request: int, run_id: str) -> None:
        """Answer with the state that a run, ended or not, has."""
        self._ask(name, r.Ask(request, run_id, False))

    def take_questions(self) -> list[tuple[str, Question]]:
        questions, self.questions = self.questions, []
        self._taken = {(name, question.request) for name, question in questions}
        return questions

    def refuse(self, questions: Sequence[tuple[str, Question]], error: InterlockError) -> None:
        for name, question in questions:
            self.problem(name, question.request, _unread(error))

    def answer_questions(self, questions: Sequence[tuple[str, Question]]) -> None:
        for name, question in questions:
            if (name, question.request) not in self._taken:
                continue
            if isinstance(question, r.Ask):
                run = self._engine.state.runs.get(question.run_id)
                if run is not None:
                    if question.wait:
                        self._watched.setdefault(run.id, {})[name, question.request] = None
                        self.waiting[(name, question.request)] = run.id
                        continue
                    report = self._report(question.request, run)
                    progress = self._engine.state.progress.get(run.id)
                    if progress is not None:
                        report.fields["progress"] = {"percent": progress[0], "text": progress[1]}
                    self._tell(name, report)
                    continue
            self._in_background(name, question)
        self._taken.clear()

    def check_watched(self) -> None:
        """After a rebuild, what was waited for may have ended in the meantime."""
        for run_id, watchers in list(self._watched.items()):
            if run_id not in self._engine.state.runs:
                del self._watched[run_id]
                for name, request in watchers:
                    self.waiting.pop((name, request), None)
                    self._ask(name, r.Ask(request, run_id, True))

    def _in_background(self, name: str, question: Question) -> None:
        self._do(self._look_up(name, question))

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look_up(self, name: str, question: Question) -> None:
        try:
            self._tell(name, await self._found(question))
        except InterlockError as error:
            self.problem(name, question.request, error)

    async def _operate(self, name: str, message: r.ActOnService | r.Reload) -> None:
        """What happens to services has nothing to do with the store, and takes its own time."""
        actor = message.actor or name
        try:
            if self.operations is None:
                raise Refused("services: this scheduler has none")
            if isinstance(message, r.Reload):
                answer: m.Message = r.ReloadReport(message.request, await self.operations.reload(actor))
            else:
                info = await self.operations.act(message.name, message.action, actor)
                answer = r.ServiceReport(message.request, info)
            self._tell(name, answer)
        except InterlockError as error:
            self.problem(name, message.request, error)
        except Exception as error:
            logger.exception("%s could not be done", message)
            self.problem(name, message.request, InterlockError(f"internal error: {error!r}"))

    async def _found(self, question: Question) -> m.Message:
        run = await self._store.run(question.run_id)
        if run is None:
            pruned = await self._store.tenant_of_pruned(question.run_id)
            raise UnknownRun(question.run_id) if pruned is None else RunPruned(question.run_id)
        if isinstance(question, r.AskHistory):
            return r.HistoryReport(question.request, await self._store.history(run.id))
        if isinstance(question, r.AskLogs):
            return r.LogReport(question.request, _latest(await self._store.logs(run.id)))
        if question.wait and run.state not in TERMINAL:
            # Alive in the store and unknown here: whoever owns it now, it is not this scheduler.
            raise StoreUnavailable("the run has another owner", asked=True)
        return self._report(question.request, run)

    async def finish(self) -> None:
        """Wait for the answers that are under way."""
        while self._tasks:
            await asyncio.wait(self._tasks)


def _unread(error: InterlockError) -> InterlockError:
    """Return the error for a caller that only reads: it says nothing about changes, which may have been made."""
    return StoreUnavailable(error.why, asked=True) if type(error) is StoreUnavailable else error


def _latest(lines: Sequence[LogEntry]) -> list[tuple[float, int, str, str]]:
    """The newest lines that fit into one answer."""
    size, kept = 0, []
    for line in reversed(lines):
        size += len(line.text) * 4
        if size > LARGEST // 4:
            kept.append((line.at, line.attempt, "warning", "earlier lines are left out"))
            break
        kept.append((line.at, line.attempt, line.level, line.text))
    kept.reverse()
    return kept


def _check_protocol(found: int) -> None:
    if found != m.PROTOCOL:
        raise Refused(
            f"link: protocol {found} is not spoken here, only {m.PROTOCOL}; use the same version on both sides"
        )
