"""Runs that are collapsed into another: they end as skipped, and it gets their payloads, whatever happens meanwhile."""

from typing import Any

import pytest

from interlock.core.bulk.table import Bulks
from interlock.core.facts import Facts
from interlock.core.sessions.session import MOST_COLLECTED, collapse
from interlock.core.state import CoreLimits
from interlock.core.transition import Pass
from interlock.error import InvalidTransition
from interlock.fields.payload import LIMIT
from interlock.model.bulk import RunAction
from interlock.model.facets import Collected, Facets, OtherRun
from interlock.model.job import Job
from interlock.model.run import RunFilter
from interlock.model.state import State
from interlock.wire.command import Answered
from interlock.wire.message import Dispatch
from interlock.wire.request import StartBulk
from interlock.wire.run_request import RetryRun
from tests.core.machine import Machine, retrying_job


class CollapsingMachine(Machine):
    def collapse(self, into: str, *run_ids: str) -> list[bool]:
        """Collapse scheduled runs in one pass of their own, as a stage of the entry does."""
        p = Pass(state=self.state, now=self.wall, elapsed=self.elapsed, rng=self.rng, facts=Facts())
        done = [collapse(p, self.run(into), self.run(run_id)) for run_id in run_ids]
        self.last = p.finish()
        self.last.batch.position = self._position
        self._position = self.last.batch.last_position + 1
        self.store.apply(self.last.batch)
        return done


def collapsed(*more: bytes, **options: Any) -> tuple[CollapsingMachine, list[str]]:
    """A machine whose first run has collected the others."""
    machine = CollapsingMachine(retrying_job(1), **options)
    run_ids = [machine.submit(payload=given) for given in (b'{"n":0}', *more)]
    assert machine.collapse(*run_ids) == [True] * len(more)
    return machine, run_ids


def payloads(machine: CollapsingMachine) -> list[list[bytes]]:
    return [one.payloads for one in machine.messages(Dispatch)]


def test_they_end_as_skipped_and_name_the_run_that_goes_on() -> None:
    machine, (first, *others) = collapsed(b'{"n":1}', b'{"n":2}')
    for run_id in others:
        run = machine.run(run_id)
        assert (run.state, run.facets) == (State.SKIPPED, Facets(collapsed_into=OtherRun(first)))
        assert run.reason == f"debounced into {first}"
        assert machine.path(run_id) == [State.PENDING, State.SCHEDULED, State.SKIPPED]
    assert machine.run(first).facets == Facets(collected=Collected(2, 14))
    assert (machine.state_of(first), machine.state.lanes["main"].waiting) == (State.SCHEDULED, 1)
    assert set(machine.state.runs) == {first}


def test_the_run_gets_all_payloads_in_order_also_when_it_is_retried_after_a_restart() -> None:
    machine, (first, *_) = collapsed(b'{"n":1}', b'{"n":2}')
    machine.collapse(first, machine.submit(payload=b'{"n":3}'))
    machine.restart_with_worker()
    machine.started(first)
    machine.finished(first, "failed")
    machine.restart_with_worker()
    machine.advance(2)
    expected = [b'{"n":0}', b'{"n":1}', b'{"n":2}', b'{"n":3}']
    assert payloads(machine) == [expected, expected]
    machine.started(first)
    machine.finished(first)
    assert machine.state_of(first) is State.SUCCEEDED
    machine.submit(payload=b'{"n":4}')
    assert payloads(machine)[2:] == [[b'{"n":4}']]


def test_a_large_payload_is_given_away_though_only_the_store_has_it() -> None:
    large = b'{"n":"' + b"x" * 1000 + b'"}'
    machine, _ = collapsed(large)
    machine.worker_up()
    assert payloads(machine) == [[b'{"n":0}', large]]


def test_a_run_that_has_collected_some_gives_them_away_too() -> None:
    machine, (first, *_) = collapsed(b'{"n":1}')
    before = machine.submit(payload=b'{"n":9}')
    assert machine.collapse(before, first) == [True]
    assert machine.run(before).facets == Facets(collected=Collected(2, 14))
    machine.worker_up()
    assert payloads(machine) == [[b'{"n":9}', b'{"n":0}', b'{"n":1}']]


def test_only_a_run_that_is_not_yet_dispatched_takes_more() -> None:
    machine, (first, *_) = collapsed(b'{"n":1}')
    machine.lanes["main"] = machine.state.lanes["main"].limit = 1
    machine.worker_up()
    second = machine.submit(payload=b'{"n":2}')
    assert machine.collapse(first, second) == [False]
    machine.started(first)
    assert machine.collapse(first, second) == [False]
    assert not machine.last.batch
    assert (machine.state_of(second), machine.run(second).facets) == (State.SCHEDULED, None)
    with pytest.raises(InvalidTransition):
        machine.collapse(second, first)
    assert machine.run(second).facets is None


def test_a_run_takes_what_one_message_can_carry() -> None:
    # A payload that only the store has counts as the largest there may be.
    large = [b'"' + b"x" * 1000 + b'"'] * (MOST_COLLECTED // LIMIT)
    machine, (first, *_) = collapsed(*large)
    assert machine.run(first).facets == Facets(collected=Collected(len(large), MOST_COLLECTED))
    one_more = machine.submit(payload=b"1")
    assert machine.collapse(first, one_more) == [False]
    assert machine.state_of(one_more) is State.SCHEDULED


def test_a_run_waits_for_its_payloads_and_nothing_else_is_read() -> None:
    machine, (first, *_) = collapsed(b'{"n":1}')
    machine.holds_answers = True
    plain = machine.submit(payload=b"{}")
    machine.worker_up()
    assert [one.run_id for one in machine.last.effects] == [first]
    assert machine.dispatched() == [plain]
    machine.step(("", Answered(machine.answers)))
    assert machine.dispatched() == [plain, first]


def test_a_retry_by_a_client_gets_all_payloads() -> None:
    machine, (first, second) = collapsed(b'{"n":1}')
    machine.worker_up()
    machine.started(first)
    machine.finished(first)
    machine.step(("ann", RetryRun(1, first, "again").by(actor="ann")))
    again, seen = machine.dispatched()[-1], payloads(machine)
    assert again != first
    assert seen == [[b'{"n":0}', b'{"n":1}']] * 2
    facets = machine.run(again).facets
    assert facets is not None
    assert facets.collected == Collected(1, 7)
    machine.step(("ann", RetryRun(2, second, "again").by(actor="ann")))
    assert payloads(machine)[2:] == [[b'{"n":1}']], "a single one is run again if a person asks for it"


def test_a_retry_that_is_debounced_at_once_hands_on_all_payloads() -> None:
    limits = CoreLimits(session_patterns={"*": {"debounce": 1.0}})
    machine = CollapsingMachine(Job(id="work"), limits=limits)
    machine.worker_up()
    first, _ = [machine.submit(payload=b'{"n":%d}' % number, session="s") for number in range(2)]
    machine.advance(1)
    machine.finished(first)
    collector = machine.submit(payload=b'{"n":2}', session="s")
    machine.step(("ann", RetryRun(1, first, "again").by(actor="ann")))
    machine.advance(1)
    assert machine.dispatched() == [first, collector]
    assert payloads(machine)[-1] == [b'{"n":2}', b'{"n":0}', b'{"n":1}']


def test_a_retry_of_everything_passes_over_runs_whose_payload_another_got() -> None:
    machine, (first, _) = collapsed(b'{"n":1}')
    machine.cancel(first)
    machine.worker_up()
    machine.step(("ann", StartBulk(1, "b1", RunAction.RETRY, RunFilter(), "again", "ann")))
    while machine.state.of(Bulks).walks:
        machine.step()
    assert payloads(machine) == [[b'{"n":0}', b'{"n":1}']]


def session(*runs: tuple[str, bytes]) -> tuple[CollapsingMachine, list[str]]:
    machine = CollapsingMachine(Job(id="work"), Job(id="other"))
    machine.worker_up()
    return machine, [machine.submit(job_id, given, session="s") for job_id, given in runs]


@pytest.mark.behaviour("SES-4")
def test_only_runs_of_one_job_become_one_in_a_session() -> None:
    machine, (first, second, third, last) = session(("work", b"1"), ("other", b"2"), ("other", b"3"), ("work", b"4"))
    assert [machine.state_of(one) for one in (second, third)] == [State.SCHEDULED, State.SKIPPED]
    machine.started(first)
    machine.finished(first)
    machine.started(second)
    machine.finished(second)
    machine.advance(0.8)
    assert machine.dispatched() == [first, second, last]
    assert payloads(machine) == [[b"1"], [b"2", b"3"], [b"4"]]


@pytest.mark.behaviour("SES-4")
def test_a_session_whose_run_is_full_begins_another() -> None:
    large = b'"' + b"x" * (LIMIT - 2) + b'"'
    count = MOST_COLLECTED // LIMIT
    machine, (first, *others) = session(*[("work", large)] * (count + 2))
    assert [machine.state_of(one) for one in others] == [State.SKIPPED] * count + [State.SCHEDULED]
    machine.started(first)
    machine.finished(first)
    machine.advance(0.8)
    assert [len(one) for one in payloads(machine)] == [count + 1, 1]
