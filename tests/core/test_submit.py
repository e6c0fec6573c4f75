"""New runs: their ids, their idempotency keys, and what is refused."""

import gc
import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.core.decisions import Failed
from interlock.core.transition import Pass
from interlock.error import BadValue, Draining, IdempotencyConflict, UnknownJob
from interlock.model.facets import Facets
from interlock.model.job import Job
from interlock.model.run import RunIds, occurrence_id
from interlock.model.state import State
from interlock.ports.store import PruneLimits
from interlock.wire.command import StartDraining
from interlock.wire.new_run import check_new_run
from interlock.wire.request import Accepted, NewRun
from tests.core.machine import START, WORK, Machine, at_once
from tests.helpers import pruning


def prune(machine: Machine) -> int:
    """Prune all that may go."""
    return at_once(pruning.prune(machine.store, PruneLimits(0, machine.wall + 1e6))).runs


@pytest.mark.behaviour("RUN-5")
def test_an_occurrence_is_named_by_its_job_and_fire_time(machine: Machine) -> None:
    assert machine.submit(occurrence=1_000_060.75) == "work:1000060"
    assert occurrence_id("nightly", 1_700_000_000.0, "default") == "nightly:1700000000"
    assert occurrence_id("nightly", 1_700_000_000.0, "blue") == "nightly:1700000000:blue"


@pytest.mark.behaviour("RUN-5")
def test_an_occurrence_of_one_tenant_is_none_of_another(machine: Machine) -> None:
    ours = machine.submit(occurrence=START, tenant="blue")
    assert machine.submit(occurrence=START, tenant="blue") == ours
    theirs = {machine.submit(occurrence=START, tenant="red"), machine.submit(occurrence=START)}
    assert len(theirs | {ours}) == 3
    assert machine.state.runs[ours].tenant == "blue"


@pytest.mark.behaviour("RUN-5")
def test_an_occurrence_is_created_once_whoever_creates_it(machine: Machine) -> None:
    run_id = machine.submit(occurrence=START)
    assert machine.submit(occurrence=START) == run_id
    assert machine.last.batch.created == []
    machine.restart()
    assert machine.submit(occurrence=START) == run_id
    machine.worker_up()
    machine.finished(run_id)
    assert machine.submit(occurrence=START) == run_id, "an ended occurrence does not come again"
    assert len(machine.store.runs_by_id) == 1


@pytest.mark.behaviour("RUN-5")
def test_an_occurrence_asked_for_twice_in_one_pass_is_created_once(machine: Machine) -> None:
    new = NewRun("work", b"{}", occurrence=START)
    first, second = machine.command(new, new), machine.command(new)
    decisions = machine.step(("a", first), ("b", second))
    answers = [answer for _, answer in decisions.answers]
    name = f"work:{int(START)}"
    assert answers == [Accepted(first.request, [name, name]), Accepted(second.request, [name])]
    assert len(decisions.batch.created) == 1


@pytest.mark.behaviour("RUN-5")
def test_an_occurrence_that_ends_in_the_pass_that_asks_again_stays_one(machine: Machine) -> None:
    run_id = machine.submit(occurrence=START)
    again = machine.command(NewRun("work", b"{}", occurrence=START))
    decisions = machine.step(machine.cancel_command(run_id), ("client", again))
    assert decisions.answers[-1][1] == Accepted(again.request, [run_id])
    assert decisions.batch.created == []


@pytest.mark.behaviour("RUN-5")
def test_submitted_runs_get_ordered_unique_ids(machine: Machine) -> None:
    ids = []
    for _ in range(50):
        ids.append(machine.submit())
        machine.wall += 0.0004
    assert ids == sorted(set(ids))
    assert all(re.fullmatch(r"[0-9a-f]{28}", one) for one in ids)
    assert int(ids[0][:12], 16) == int(START * 1000)


@pytest.mark.behaviour("RUN-5")
@given(
    st.lists(
        st.tuples(st.floats(0, 4e9), st.integers(0, 2**48 - 1), st.sampled_from([1, 1, 1, 5])), min_size=1, max_size=60
    )
)
def test_a_later_id_is_greater_even_when_the_clock_goes_back(readings: list[tuple[float, int, int]]) -> None:
    ids = RunIds()
    made = [ids.next(now, bits) for now, bits, times in readings for _ in range(times)]
    assert all(earlier < later for earlier, later in itertools.pairwise(made))
    assert {len(one) for one in made} == {28}


def test_more_ids_in_one_millisecond_than_the_count_holds_borrow_from_the_next() -> None:
    ids = RunIds()
    made = [ids.next(1.0, 0) for _ in range(0x10000 + 2)]
    assert made == sorted(set(made))


@pytest.mark.behaviour("RUN-6")
def test_a_key_used_again_returns_the_first_run(machine: Machine) -> None:
    first = machine.submit(payload=b'{"a":1,"b":2}', idempotency_key="k")
    assert machine.submit(payload=b'{"b": 2, "a": 1}', idempotency_key="k") == first, "equal values are equal payloads"
    assert not machine.last.batch
    machine.restart()
    assert machine.submit(payload=b'{"a":1,"b":2}', idempotency_key="k") == first
    machine.cancel(first)
    assert machine.submit(payload=b'{"a":1,"b":2}', idempotency_key="k") == first
    assert len(machine.store.runs_by_id) == 1


@pytest.mark.behaviour("RUN-6")
def test_a_key_is_of_its_tenant(machine: Machine) -> None:
    assert machine.submit(idempotency_key="k") != machine.submit(idempotency_key="k", tenant="other")


@pytest.mark.behaviour("RUN-6")
@pytest.mark.parametrize("other", [("work", b'{"a":2}'), ("more", b'{"a":1}')])
def test_a_key_with_another_payload_or_job_is_a_conflict(other: tuple[str, bytes]) -> None:
    machine = Machine(WORK, Job(id="more"))
    first = machine.submit(payload=b'{"a":1}', idempotency_key="k")
    with pytest.raises(IdempotencyConflict) as caught:
        machine.submit(*other, idempotency_key="k")
    assert (caught.value.code, caught.value.key, caught.value.run_id) == ("idempotency_conflict", "k", first)
    assert "'k'" in str(caught.value)
    assert first in str(caught.value)
    assert not machine.last.batch
    assert len(machine.store.runs_by_id) == 1


@pytest.mark.behaviour("RUN-6")
@pytest.mark.parametrize("when", ["live", "restarted", "ended", "pruned"])
@pytest.mark.parametrize("key", [None, "k"])
def test_an_occurrence_with_another_payload_is_a_conflict(machine: Machine, when: str, key: str | None) -> None:
    first = machine.submit(payload=b'{"a":1,"b":"x"}', occurrence=START, idempotency_key=key)
    if when != "live":
        machine.restart()
    if when in ("ended", "pruned"):
        machine.cancel(first)
        machine.submit()
    if when == "pruned":
        assert prune(machine) == 1
    assert machine.submit(payload=b'{"b": "x", "a": 1}', occurrence=START + 0.5) == first
    with pytest.raises(IdempotencyConflict, match=r"^occurrence: '1970-01-12T13:46:40Z' .* work:1000000 "):
        machine.submit(payload=b'{"a":2}', occurrence=START)
    assert not machine.last.batch
    assert machine.submit(payload=b'{"a":2}', occurrence=START, tenant="blue") != first


@pytest.mark.behaviour("RUN-6")
def test_occurrences_are_compared_within_one_pass_too(machine: Machine) -> None:
    new, other = (NewRun("work", data, occurrence=START) for data in (b'{"a":1}', b'{"a":2}'))
    decisions = machine.step(("a", machine.command(new)), ("b", machine.command(other)), ("c", machine.command(new)))
    (_, first), (_, second), (_, third) = decisions.answers
    assert isinstance(first, Accepted)
    assert isinstance(second, Failed)
    assert isinstance(third, Accepted)
    assert (second.error.code, third.run_ids) == ("idempotency_conflict", first.run_ids)
    answer = machine.ask(*(NewRun("work", data, occurrence=START + 60) for data in (b"{}", b'{"a":1}')))
    assert isinstance(answer, Failed)
    assert answer.error.code == "idempotency_conflict"
    assert len(machine.store.runs_by_id) == 1


@pytest.mark.behaviour("RUN-6")
def test_a_secret_is_the_same_whether_it_is_marked_or_not(machine: Machine) -> None:
    first = machine.submit(payload=b'{"pin":"1234"}', occurrence=START)
    assert machine.submit(payload=b'{"pin":{"$secret":"1234"}}', occurrence=START) == first
    with pytest.raises(IdempotencyConflict):
        machine.submit(payload=b'{"pin":{"$secret":"4321"}}', occurrence=START)
    with pytest.raises(IdempotencyConflict):
        machine.submit(payload=b'{"pin":{"$secret":1234}}', occurrence=START)


@pytest.mark.behaviour("RUN-6")
@pytest.mark.parametrize("occurrence", [None, START])
def test_a_key_outlives_its_run(machine: Machine, occurrence: float | None) -> None:
    first = machine.submit(payload=b'{"a":1}', idempotency_key="k", occurrence=occurrence)
    machine.cancel(first)
    machine.submit()
    assert prune(machine) == 1
    for _ in range(2):
        assert machine.submit(payload=b'{"a":1}', idempotency_key="k", occurrence=occurrence) == first
        assert not machine.last.batch
        with pytest.raises(IdempotencyConflict):
            machine.submit(payload=b'{"a":2}', idempotency_key="k")
        machine.restart()
    at_once(pruning.prune_keys(machine.store, machine.wall + 1))
    assert machine.submit(payload=b'{"a":2}', idempotency_key="k") != first


@pytest.mark.behaviour("RUN-6")
def test_keys_are_compared_within_one_pass_too(machine: Machine) -> None:
    new = NewRun("work", b'{"a":1}', idempotency_key="k")
    same = machine.command(new, new)
    again = machine.command(new)
    other = machine.command(NewRun("work", b'{"a":2}', idempotency_key="k"))
    decisions = machine.step(("a", same), ("b", again), ("c", other))
    (_, first), (_, second), (_, third) = decisions.answers
    assert isinstance(first, Accepted)
    assert isinstance(second, Accepted)
    assert isinstance(third, Failed)
    assert {*first.run_ids, *second.run_ids} == {first.run_ids[0]}
    assert third.error.code == "idempotency_conflict"
    assert len(decisions.batch.created) == 1


@pytest.mark.behaviour("RUN-6")
def test_a_conflict_within_one_submit_leaves_nothing_of_it(machine: Machine) -> None:
    answer = machine.ask(
        NewRun("work", b"{}"),
        NewRun("work", b'{"a":1}', idempotency_key="k"),
        NewRun("work", b'{"a":2}', idempotency_key="k"),
    )
    assert isinstance(answer, Failed)
    assert answer.error.code == "idempotency_conflict"
    assert not machine.last.batch
    assert not machine.store.runs_by_id
    assert not machine.store.keys


def test_an_unknown_job_refuses_the_whole_submit(machine: Machine) -> None:
    answer = machine.ask(NewRun("work", b"{}"), NewRun("wrok", b"{}"))
    assert isinstance(answer, Failed)
    assert isinstance(answer.error, UnknownJob)
    assert answer.error.code == "unknown_job"
    assert "'wrok'" in str(answer.error)
    assert not machine.last.batch
    assert not machine.state.runs


def test_a_draining_scheduler_refuses_submits_and_hands_out_nothing(machine: Machine) -> None:
    waiting = machine.submit()
    machine.step(("", StartDraining()))
    with pytest.raises(Draining):
        machine.submit()
    machine.worker_up()
    assert machine.dispatched() == []
    machine.restart_with_worker()
    assert machine.dispatched() == [waiting]


def test_a_run_ahead_of_its_time_waits_for_it() -> None:
    machine = Machine()
    machine.worker_up()
    run_id = machine.submit(at=START + 10)
    assert machine.state_of(run_id) is State.PRERUN
    assert machine.last.wake_at == START + 10
    machine.advance(9.999)
    assert machine.state_of(run_id) is State.PRERUN
    machine.wall = START + 10
    machine.step()
    assert machine.state_of(run_id) is State.DISPATCHED


def test_a_large_payload_stays_in_the_store_only(machine: Machine) -> None:
    large, small = b'"' + b"x" * 300 + b'"', b'"' + b"x" * 254 + b'"'
    assert len(small) == machine.limits.small_payload
    run_id, other = machine.submit(payload=large), machine.submit(payload=small)
    assert machine.state.runs[run_id].payload is None
    assert machine.state.runs[other].payload == small
    assert machine.store.runs_by_id[run_id].payload == large
    machine.restart()
    assert machine.state.runs[run_id].payload is None
    assert machine.state.runs[other].payload == small


def test_labels_are_kept_with_the_run_through_holds_and_restarts(machine: Machine) -> None:
    run_id = machine.submit(labels={"team": "red"})
    assert machine.state.runs[run_id].facets == Facets(labels={"team": "red"})
    machine.restart()
    assert machine.state.runs[run_id].facets == Facets(labels={"team": "red"})
    assert machine.state.runs[machine.submit(labels={})].facets is None


@pytest.mark.parametrize(
    ("labels", "field"),
    [
        ({f"n{number}": "" for number in range(17)}, "labels"),
        ({"two words": "x"}, "labels"),
        ({"team": "x" * 257}, "labels.team"),
    ],
)
def test_labels_have_limits(labels: dict[str, str], field: str) -> None:
    with pytest.raises(BadValue) as caught:
        check_new_run(NewRun("work", b"{}", labels=labels))
    assert caught.value.field == field


def test_a_refused_submit_leaves_nothing_of_its_pass_in_memory(machine: Machine) -> None:
    """The error led to the pass through its frames, and the pass to the error: the collector did not see that."""

    def refuse() -> int:
        for _ in range(5):
            assert isinstance(machine.ask(NewRun("nosuch", b"{}")), Failed)
        gc.collect()
        return sum(type(thing) is Pass for thing in gc.get_objects())

    assert refuse() == refuse()
