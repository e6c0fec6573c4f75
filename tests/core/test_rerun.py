"""Ended runs are run again by clients: one by its id, or many by a bulk request."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from interlock.core.bulk import rerun
from interlock.core.bulk.table import Bulks
from interlock.core.decisions import Answer, Failed
from interlock.core.state import CoreLimits
from interlock.core.step import Command
from interlock.error import InterlockError, UnknownJob
from interlock.model.bulk import ActedOn, BulkRequest, RunAction
from interlock.model.facets import Facets, OtherRun, SessionFacet
from interlock.model.job import Job, Priority
from interlock.model.run import RETRY, RunFilter
from interlock.model.state import State
from interlock.ports.store import PruneLimits
from interlock.wire.command import Define, StartDraining
from interlock.wire.request import StartBulk, ValueAnswer
from interlock.wire.run_request import RetryRun
from tests.core.machine import AT_ONCE, START, Machine, acted_on, at_once
from tests.helpers.pruning import prune


def command(run_id: str, key: str = "") -> Command:
    return "client", RetryRun(7, run_id, "try again").by(actor="ann", key=key)


def retry(m: Machine, run_id: str, key: str = "") -> str:
    answer = m.step(command(run_id, key)).answers[-1][1]
    return acted_on(answer).id


def refusal(answer: Answer) -> InterlockError:
    assert isinstance(answer, Failed)
    return answer.error


def failed(m: Machine, **fields: Any) -> str:
    run_id = m.running(**fields)
    m.finished(run_id, "failed_fatal", error="no")
    return run_id


def cancelled(m: Machine, **fields: Any) -> str:
    run_id = m.submit(**fields, at=START + 10_000)
    m.cancel(run_id)
    return run_id


def succeeded(m: Machine, **fields: Any) -> str:
    run_id = m.running(**fields)
    m.finished(run_id, result=b"1")
    return run_id


def retries(m: Machine) -> list[str]:
    """The runs that were retried, in the order of their new runs."""
    facets = [run.facets for run in m.store.runs_by_id.values() if run.origin == RETRY]
    return [one.retry_of.run_id for one in facets if one is not None and one.retry_of is not None]


@pytest.mark.behaviour("RUN-23")
@pytest.mark.parametrize("end", [failed, cancelled, succeeded])
def test_a_new_run_has_what_the_old_one_had_and_names_it(end: Callable[..., str]) -> None:
    m = Machine(lanes={"main": 4, "team": 1}, limits=CoreLimits(session_patterns=AT_ONCE))
    fields = {"payload": b'{"a":1}', "tenant": "blue", "lane": "team", "session": "s", "labels": {"by": "ann"}}
    fields |= {"priority": "batch", "session_options": {"cap": 2}}
    old = end(m, **fields)
    before = m.store.runs_by_id[old].state, m.store.runs_by_id[old].result, m.path(old)
    new = m.run(retry(m, old))
    assert new.id > old
    assert (new.job_id, new.payload, new.tenant, new.lane, new.session) == ("work", b'{"a":1}', "blue", "team", "s")
    kept = Facets(labels={"by": "ann"}, priority=Priority.BATCH, session=SessionFacet({"cap": 2}, place=1))
    assert new.facets == replace(kept, retry_of=OtherRun(run_id=old), behind=("client",))
    first = m.history(new.id)[0]
    assert (first.after, first.reason, first.actor, new.origin) == (State.PENDING, "try again", "ann", RETRY)
    stored = m.store.runs_by_id[old]
    assert (stored.state, stored.result, m.path(old)) == before
    assert stored.facets is not None
    marks = msgspec.structs.replace(stored.facets, session=None)
    assert marks == replace(kept, session=marks.session, retried_as=OtherRun(run_id=new.id))


@pytest.mark.behaviour("RUN-23")
def test_a_retry_passes_admission_and_limits_like_any_other() -> None:
    m = Machine(lanes={"main": 1})
    old = failed(m)
    busy = m.running()
    new = retry(m, old)
    assert m.path(new) == [State.PENDING, State.SCHEDULED]
    m.finished(busy)
    assert m.state_of(new) is State.DISPATCHED
    m.started(new)
    m.finished(new, result=b"2")
    assert (m.run(new).state, m.run(new).result, m.run(new).attempt) == (State.SUCCEEDED, b"2", 1)


def test_a_retry_has_as_long_to_its_deadline_as_the_old_run_had(m: Machine) -> None:
    old = m.submit(at=START + 10, deadline=START + 15)
    m.advance(100)
    assert m.state_of(old) is State.TIMEOUT
    assert m.run(retry(m, old)).deadline_at == m.wall + 5
    assert m.run(retry(m, failed(m))).deadline_at is None


@pytest.mark.behaviour("RUN-23")
def test_a_live_run_is_not_retried(m: Machine) -> None:
    for run_id, state in ((m.running(), State.RUNNING), (m.submit(at=START + 100), State.PRERUN)):
        error = refusal(m.step(command(run_id)).answers[-1][1])
        assert (error.code, getattr(error, "run_id", ""), getattr(error, "state", "")) == (
            "run_not_ended",
            run_id,
            state,
        )
        assert not m.last.batch


def test_a_run_that_is_gone_or_has_no_job_is_an_error() -> None:
    m = Machine(Job(id="work"), Job(id="old"))
    pruned = cancelled(m, idempotency_key="k")
    m.advance(10)
    old = cancelled(m, job_id="old")
    at_once(prune(m.store, PruneLimits(most=10, ended_before=START + 1)))
    m.step(("", Define(1, [Job(id="work")])))
    for run_id, code in (("nothing", "unknown_run"), (pruned, "run_pruned"), (old, "unknown_job")):
        assert refusal(m.step(command(run_id)).answers[-1][1]).code == code
        assert not m.last.batch


@pytest.mark.behaviour("RUN-23")
def test_a_repeated_request_finds_the_run_of_the_first(m: Machine) -> None:
    old, other = failed(m, tenant="blue"), failed(m)
    new = retry(m, old, "k1")
    assert retry(m, old, "k1") == new
    twice = m.step(command(old, "k2"), command(old, "k2")).answers
    assert len({acted_on(one).id for _, one in twice}) == 1
    m.started(new)
    m.finished(new)
    m.restart()
    again = m.step(command(old, "k1")).answers[-1][1]
    assert again == ValueAnswer(7, ActedOn(id=new, state=State.SUCCEEDED))
    assert not m.last.batch
    assert retries(m) == [old, old]
    assert retry(m, other, "k1") != new, "a key belongs to one run"
    third, fourth = retry(m, old), retry(m, old)
    assert third != fourth, "without a key each request is another"
    assert m.store.runs_by_id[old].facets == Facets(retried_as=OtherRun(run_id=fourth))


def test_a_run_is_retried_in_the_pass_that_ends_it() -> None:
    m = Machine(limits=CoreLimits(small_payload=4))
    old = m.running(payload=b'{"large":"payload"}')
    assert m.state.runs[old].payload is None
    answers = m.step(m.finish_command(old, "failed_fatal"), command(old)).answers
    new = acted_on(answers[-1][1]).id
    assert m.store.runs_by_id[new].payload == b'{"large":"payload"}'
    stored = m.store.runs_by_id[old]
    assert (stored.state, stored.facets) == (State.FAILED, Facets(retried_as=OtherRun(run_id=new)))


def test_a_draining_scheduler_retries_nothing(m: Machine) -> None:
    old = failed(m)
    m.step(("", StartDraining()))
    assert refusal(m.step(command(old)).answers[-1][1]).code == "draining"
    assert refusal(m.step(request()).answers[-1][1]).code == "draining"
    assert retries(m) == []


# ── by filter ───────────────────────────────────────────────────────────────────────────────────────────────────────


def request(bulk_id: str = "b1", **wanted: Any) -> Command:
    return "client", StartBulk(3, bulk_id, RunAction.RETRY, RunFilter(**wanted), "again", "ann")


def small(*jobs: Job) -> Machine:
    return Machine(*jobs, lanes={"main": 1000, "team": 10}, limits=CoreLimits(bulk_runs=3, session_patterns=AT_ONCE))


def finish(m: Machine) -> int:
    passes = 0
    while m.state.of(Bulks).walks:
        m.step()
        passes += 1
    return passes


@pytest.mark.behaviour("RUN-25", "RUN-23")
def test_one_request_retries_all_that_ended_without_success() -> None:
    m = small()
    old = [failed(m) for _ in range(5)] + [cancelled(m) for _ in range(5)]
    succeeded(m)
    live = m.running()
    answer = m.step(request()).answers[-1][1]
    assert isinstance(answer, ValueAnswer)
    assert (answer.value.done, answer.value.left, answer.value.ended_at) == (3, None, None)
    assert finish(m) == 3
    bulk = m.store.all_of(BulkRequest)["b1"]
    assert (bulk.done, bulk.asked, bulk.ended_at, bulk.before) == (10, 0, START, None)
    assert retries(m) == old[::-1]
    assert m.state_of(live) is State.RUNNING
    new = [run for run in m.store.runs_by_id.values() if run.origin == RETRY]
    assert {m.history(run.id)[0].reason for run in new} == {"again"}
    assert m.step(request()).answers[-1][1] == ValueAnswer(3, bulk)
    assert not m.last.batch


@pytest.mark.behaviour("RUN-25", "RUN-23")
@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        ({}, {"failed", "cancelled", "other", "blue", "session", "team"}),
        ({"states": frozenset({State.FAILED})}, {"failed", "other", "blue", "session", "team"}),
        ({"states": frozenset({State.SUCCEEDED, State.CANCELLED})}, {"succeeded", "cancelled"}),
        ({"job_id": "other"}, {"other"}),
        ({"tenant": "blue"}, {"blue"}),
        ({"session": "s"}, {"session"}),
        ({"lane": "team"}, {"team"}),
        ({"since": START + 5}, {"cancelled"}),
    ],
)
def test_the_filter_is_that_of_lists(wanted: dict[str, Any], chosen: set[str]) -> None:
    m = small(Job(id="work"), Job(id="other"))
    runs = {
        "failed": failed(m),
        "succeeded": succeeded(m),
        "other": failed(m, job_id="other"),
        "blue": failed(m, tenant="blue"),
        "session": failed(m, session="s"),
        "team": failed(m, lane="team"),
    }
    m.advance(10)
    runs["cancelled"] = cancelled(m)
    m.step(request(**wanted))
    finish(m)
    assert {name for name, one in runs.items() if one in retries(m)} == chosen


@pytest.mark.behaviour("RUN-25")
@pytest.mark.parametrize("deaths", range(5))
def test_after_any_death_the_next_scheduler_goes_on_and_retries_none_twice(deaths: int) -> None:
    m = small()
    old = [cancelled(m) for _ in range(10)]
    m.step(request())
    for _ in range(deaths):
        later = cancelled(m)
        m.restart()
        assert later not in retries(m), "a run that was created after the request"
    finish(m)
    assert retries(m) == old[::-1]
    assert m.store.all_of(BulkRequest)["b1"].done == 10


@pytest.mark.behaviour("RUN-25")
def test_runs_that_were_retried_before_are_passed_over() -> None:
    m = small()
    first, second = failed(m), failed(m)
    new = retry(m, first)
    m.step(request("b1"), request("b2"))
    finish(m)
    assert retries(m) == [first, second]
    m.started(new)
    m.finished(new, "failed_fatal")
    m.step(request("b3"))
    finish(m)
    assert retries(m) == [first, second, new], "the latest of a chain is retried, and no other"


def test_runs_whose_job_is_gone_are_passed_over() -> None:
    m = small(Job(id="work"), Job(id="old"))
    cancelled(m, job_id="old")
    kept = cancelled(m)
    m.step(("", Define(1, [Job(id="work")])))
    m.step(request())
    finish(m)
    assert retries(m) == [kept]
    assert isinstance(refusal(m.step(request("b2", job_id="old")).answers[-1][1]), UnknownJob)


def test_live_runs_cannot_be_retried() -> None:
    m = small()
    states = frozenset({State.FAILED, State.RUNNING})
    error = refusal(m.step(request(states=states)).answers[-1][1])
    assert (error.code, getattr(error, "field", ""), getattr(error, "value", "")) == ("bad_value", "state", "running")
    assert m.state.of(Bulks).requests == {}


def test_a_scheduler_that_drains_leaves_the_rest_to_the_next() -> None:
    m = small()
    old = [cancelled(m) for _ in range(7)]
    m.step(request())
    m.step(("", StartDraining()))
    assert finish(m) == 0, "it does not wait for what it must not do"
    assert len(retries(m)) == 3
    m.restart()
    finish(m)
    assert retries(m) == old[::-1]


def test_a_page_is_small_whatever_a_pass_may_do(m: Machine) -> None:
    for _ in range(rerun.PAGE + 1):
        cancelled(m)
    m.step(request())
    assert m.store.all_of(BulkRequest)["b1"].done == rerun.PAGE
    assert finish(m) == 1
