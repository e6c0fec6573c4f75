"""`unique: while_live`: a key that is free again once its run has ended, in the commit that ends it."""

from typing import Any

import pytest

from interlock.core.decisions import Failed
from interlock.error import BadValue
from interlock.model.facets import Facets, Unique
from interlock.model.state import State
from interlock.wire.new_run import NewRun, check_new_run
from interlock.wire.request import Accepted
from interlock.wire.run_request import CancelRun
from tests.core.machine import START, Machine, at_once, retrying_job
from tests.helpers.lookups import known_keys

pytestmark = pytest.mark.behaviour("RUN-6")

KEY: dict[str, Any] = {"idempotency_key": "k", "unique": "while_live"}


def held_by(m: Machine) -> str | None:
    known = at_once(known_keys(m.store, [("default", "k")])).get(("default", "k"))
    return None if known is None else known[0]


def test_while_its_run_lives_a_key_finds_it() -> None:
    m = Machine(retrying_job(1))
    run_id = m.submit(**KEY)
    assert m.state.runs[run_id].facets == Facets(unique=Unique())
    m.worker_up()
    for event in (lambda: m.started(run_id), lambda: m.finished(run_id, "failed"), m.restart, lambda: m.advance(2)):
        event()
        assert m.submit(**KEY) == m.submit(idempotency_key="k") == run_id
    conflict = m.ask(NewRun("work", b'{"other":1}', **KEY))
    assert isinstance(conflict, Failed)
    assert conflict.error.code == "idempotency_conflict"
    assert m.submit(**KEY, tenant="blue") != run_id


@pytest.mark.parametrize("outcome", ["succeeded", "failed", "failed_fatal", "cancelled", "timeout"])
def test_the_commit_that_ends_a_run_frees_its_key(m: Machine, outcome: str) -> None:
    run_id = m.running(**KEY)
    assert held_by(m) == run_id
    m.finished(run_id, outcome)
    assert m.last.batch.keys.freed == [run_id]
    assert held_by(m) is None
    m.restart()
    again = m.submit(payload=b'{"other":1}', **KEY)
    assert again != run_id
    assert held_by(m) == again
    assert m.run(run_id).idempotency_key == "k", "the record keeps it"


def test_without_unique_a_key_outlasts_its_run(m: Machine) -> None:
    run_id = m.running(idempotency_key="k")
    m.finished(run_id)
    assert m.last.batch.keys.freed == []
    assert m.submit(**KEY) == run_id, "the first submit decides"


def test_within_one_pass_the_order_decides(m: Machine) -> None:
    one, new = m.running(**KEY), NewRun("work", b"{}", **KEY)
    answers = m.step(("a", m.command(new)), m.finish_command(one), ("b", m.command(new)), ("c", m.command(new))).answers
    found = {origin: answer.run_ids[0] for origin, answer in answers if isinstance(answer, Accepted)}
    assert found["a"] == one
    assert found["b"] == found["c"] == held_by(m) != one


def test_a_run_that_begins_and_ends_in_one_pass_leaves_its_key_free(m: Machine) -> None:
    first = m.submit(**KEY)
    # The ids follow from the seed: a twin tells which one the second run will have.
    twin = Machine()
    twin.submit(**KEY)
    twin.cancel(first)
    second = twin.submit(**KEY)
    new, cancel = m.command(NewRun("work", b"{}", **KEY)), CancelRun(9, second)
    m.step(m.cancel_command(first), ("client", new), ("client", cancel))
    assert (m.state_of(first), m.state_of(second)) == (State.CANCELLED, State.CANCELLED)
    assert held_by(m) is None
    assert m.submit(**KEY) not in (first, second)


def test_an_occurrence_stays_taken_when_its_key_is_free(m: Machine) -> None:
    run_id = m.submit(**KEY, occurrence=START)
    m.cancel(run_id)
    assert held_by(m) is None
    assert m.submit(occurrence=START) == run_id


@pytest.mark.parametrize(
    "fields",
    [{"unique": "while_live"}, {"unique": "always", "idempotency_key": "k"}, {"unique": "", "idempotency_key": "k"}],
)
def test_what_is_refused(fields: dict[str, str]) -> None:
    with pytest.raises(BadValue) as caught:
        check_new_run(NewRun("work", b"{}", **fields))  # type: ignore[arg-type]
    assert caught.value.field == "unique"
