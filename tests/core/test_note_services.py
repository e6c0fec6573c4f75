"""What is to be stored of services goes into the batch as it is, and changes nothing else."""

import pytest

from interlock.core.decisions import Batch
from interlock.model.child_info import Kept
from interlock.wire.command import NoteServices, ServiceRow
from tests.core.machine import Machine
from tests.helpers.records import kept


def row(service: str, number: int) -> ServiceRow:
    return service, number, 1.0, "stdout", "text", None


@pytest.mark.behaviour("SUP-7")
def test_what_is_noted_is_in_the_batch_in_the_order_in_which_it_came(machine: Machine) -> None:
    one, two = Kept(resume_id="1"), Kept(resume_id="2")
    decisions = machine.step(
        ("", NoteServices([("a", one)], [row("a", 1), row("b", 1)])), ("", NoteServices([("a", None), ("b", two)], []))
    )
    assert decisions.batch.records == kept(a=None, b=two), "the last of each"
    assert decisions.batch.service_log == [row("a", 1), row("b", 1)]
    assert (decisions.batch.created, decisions.batch.updated, decisions.batch.history) == ([], {}, [])
    assert (decisions.sends, decisions.answers, decisions.problems, decisions.warnings) == ({}, [], [], [])


def test_a_batch_with_nothing_but_services_is_not_empty() -> None:
    assert not Batch()
    assert Batch(records=kept(a=None))
    assert Batch(service_log=[row("a", 1)])
    assert Batch(position=5).last_position == 4
    assert Batch(service_log=[row("a", 1), row("a", 2)], position=5).last_position == 6


def test_what_one_pass_noted_is_not_in_the_next(machine: Machine) -> None:
    machine.step(("", NoteServices([("a", Kept(resume_id="1"))], [row("a", 1)])))
    assert not machine.step().batch
