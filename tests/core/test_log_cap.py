"""A run's log has limits: what passes them is left out, and one last line says so, once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.core.attempts.log_table import Logs
from interlock.core.state import CoreLimits
from interlock.model.state import State
from interlock.wire.message import CHUNKS, LogMessage
from tests.core.machine import Machine, at_once, retrying_job

LIMITS = CoreLimits(log_lines=5, log_bytes=100)
LAST = LIMITS.log_full


class Logging(Machine):
    """A machine with one run that executes and logs."""

    def __init__(self, limits: CoreLimits = LIMITS, max_retries: int = 0) -> None:
        super().__init__(retrying_job(max_retries), limits=limits)
        self.run_id = self.running()
        self.number = 0

    def log(self, *texts: str) -> None:
        run = self.run(self.run_id)
        lines = []
        for text in texts:
            self.number += 1
            lines.append((str(run.worker_id), LogMessage(run.id, run.fence, self.number, self.wall, "info", text)))
        self.step(*lines)

    def receive(self, *lines: tuple[int, str, str]) -> None:
        """Lines arrive, each with its number, level and text."""
        run = self.run(self.run_id)
        self.step(
            *((str(run.worker_id), LogMessage(run.id, run.fence, line[0], self.wall, *line[1:])) for line in lines)
        )

    def again(self) -> None:
        """The attempt fails and the next one begins."""
        self.finished(self.run_id, "failed")
        self.advance(60)
        self.started(self.run_id)
        self.number = 0

    def restart(self) -> None:
        """The next scheduler begins, and the worker comes back with the attempt."""
        super().restart()
        self.worker_up(held=[self.held(self.run_id)])

    @property
    def kept(self) -> list[str]:
        return [line.text for line in at_once(self.store.logs(self.run_id))]


def test_a_log_that_just_fits_is_kept_whole() -> None:
    machine = Logging()
    machine.log("1", "2", "3", "4", "5")
    assert machine.kept == ["1", "2", "3", "4", "5"]
    machine = Logging()
    machine.log("x" * 99, "", "y", "")
    assert machine.kept == ["x" * 99, "", "y", ""]
    assert machine.state.of(Logs).dropped == 0


def test_the_line_beyond_the_last_is_replaced_and_nothing_follows() -> None:
    machine = Logging()
    machine.log("1", "2", "3", "4", "5", "6", "7")
    machine.log("8")
    assert machine.kept == ["1", "2", "3", "4", "5", LAST]
    last = at_once(machine.store.logs(machine.run_id))[-1]
    assert last.level == "warning"
    assert machine.state.of(Logs).dropped == 3


def test_a_line_that_passes_the_bytes_is_cut_there() -> None:
    machine = Logging()
    machine.log("x" * 90, "y" * 11, "z")
    assert machine.kept == ["x" * 90, "y" * 10, LAST]
    assert machine.state.of(Logs).dropped == 2


def test_text_counts_in_bytes_and_is_cut_between_characters() -> None:
    machine = Logging()
    machine.log("ü" * 49, "äöü", "z")
    assert machine.kept == ["ü" * 49, "ä", LAST]
    machine = Logging()
    machine.log("x" * 99, "äöü", "z")
    assert machine.kept == ["x" * 99, LAST]
    assert machine.state.of(Logs).dropped == 2


def test_the_limits_hold_over_all_attempts() -> None:
    machine = Logging(max_retries=3)
    machine.log("1", "2", "3")
    machine.again()
    machine.log("4", "5", "6")
    machine.again()
    machine.log("7")
    assert machine.kept == ["1", "2", "3", "4", "5", LAST]


def test_no_log_at_all_is_a_limit_too() -> None:
    for limits in (CoreLimits(log_lines=0), CoreLimits(log_bytes=0)):
        machine = Logging(limits)
        machine.log("1", "2")
        machine.restart()
        machine.log("3")
        assert machine.kept == [limits.log_full]


@given(
    st.lists(st.text("aü€😀", max_size=30), max_size=12),
    st.sets(st.integers(0, 11)),
    st.sets(st.integers(0, 11)),
)
def test_neither_a_restart_nor_another_attempt_opens_a_full_log_again(
    texts: list[str], restarts: set[int], retries: set[int]
) -> None:
    plain, moved = Logging(), Logging(max_retries=12)
    for place, text in enumerate(texts):
        plain.log(text)
        if place in retries:
            moved.again()
        if place in restarts:
            moved.restart()
        moved.log(text)
    assert moved.kept == plain.kept
    assert moved.kept.count(LAST) <= 1
    assert moved.state.of(Logs).sizes == plain.state.of(Logs).sizes
    assert sum(len(text.encode()) for text in moved.kept if text != LAST) <= 100
    assert len(moved.kept) <= 6
    whole = len(texts) <= 5 and sum(len(text.encode()) for text in texts) <= 100
    assert (moved.kept == texts) is whole


@given(st.lists(st.tuples(st.integers(1, 8), st.sampled_from(["line", "restart"])), max_size=30))
def test_lines_that_are_said_again_are_neither_counted_nor_kept_twice(said: list[tuple[int, str]]) -> None:
    """In any order: the threads of one attempt number and send on their own. What has a gap before it is known again
    by the same scheduler alone."""
    machine = Logging(CoreLimits(log_lines=8, log_bytes=1000))
    seen: set[int] = set()
    for number, what in said:
        if what == "restart" and seen == set(range(1, len(seen) + 1)):
            machine.restart()
        machine.number = number - 1
        machine.log(str(number))
        seen.add(number)
        assert sorted(machine.kept) == sorted(map(str, seen))
        assert machine.state.of(Logs).sizes == {machine.run_id: (len(seen), len(seen))}
    assert machine.state.of(Logs).dropped == 0


@pytest.mark.parametrize("restarts", [False, True])
def test_a_log_that_is_said_again_is_full_when_it_would_have_been(restarts: bool) -> None:
    machine = Logging()
    machine.log("1", "2", "3")
    if restarts:
        machine.restart()
    machine.number = 0
    machine.log("1", "2", "3", "4", "5")
    assert machine.kept == ["1", "2", "3", "4", "5"]
    assert machine.state.of(Logs).dropped == 0
    machine.log("6")
    assert machine.kept == ["1", "2", "3", "4", "5", LAST]


def test_what_is_counted_is_forgotten_at_the_end() -> None:
    machine = Logging()
    machine.log("1", "2")
    assert machine.state.of(Logs).sizes == {machine.run_id: (2, 2)}
    machine.finished(machine.run_id)
    assert machine.state_of(machine.run_id) is State.SUCCEEDED
    assert machine.state.of(Logs).sizes == {}
    assert machine.state.of(Logs).lines == {}


def test_a_line_of_an_attempt_that_is_over_is_not_counted() -> None:
    machine = Logging(max_retries=1)
    run = machine.run(machine.run_id)
    late = (str(run.worker_id), LogMessage(run.id, run.fence, 1, machine.wall, "info", "late"))
    machine.finished(machine.run_id, "failed")
    machine.step(late)
    assert machine.kept == []
    assert machine.state.of(Logs).sizes == {}
    assert machine.state.of(Logs).dropped == 0


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        (CoreLimits(), "10,000 lines or 4 MiB"),
        (CoreLimits(log_lines=7, log_bytes=3072), "7 lines or 3 KiB"),
        (CoreLimits(log_lines=1, log_bytes=1500), "1 lines or 1,500 bytes"),
    ],
)
def test_the_last_line_names_the_limits(limits: CoreLimits, says: str) -> None:
    assert says in limits.log_full


@pytest.mark.behaviour("RUN-27", "SEC-6")
def test_a_stream_is_marked_as_cut_though_later_lines_arrived_before() -> None:
    machine = Logging(CoreLimits(log_lines=3, log_bytes=1000))
    machine.receive(*((number, "info", str(number)) for number in (2, 3, 4, 5)), (1, CHUNKS, '["first"]'))
    machine.receive((6, CHUNKS, '["second"]'))
    assert machine.kept == ["2", "3", "4", machine.state.limits.log_full, "[]"]


@pytest.mark.behaviour("RUN-27", "SEC-6", "REC-6")
def test_a_restart_does_not_reopen_a_log_that_chunks_have_filled() -> None:
    """Chunks are left out whole, so the stored bytes stay below the limit."""
    machine = Logging(CoreLimits(log_lines=5, log_bytes=1000))
    first, second = (f'["{letter * 600}"]' for letter in "xy")
    machine.receive((1, CHUNKS, first), (2, CHUNKS, second))
    kept = [first, machine.state.limits.log_full, "[]"]
    assert machine.kept == kept
    machine.restart()
    machine.receive((3, CHUNKS, '["z"]'), (4, "info", "z"))
    assert machine.kept == kept


@pytest.mark.behaviour("RUN-27", "SEC-6")
def test_chunks_nested_too_deep_for_a_reader_are_left_out() -> None:
    machine = Logging(CoreLimits())
    for number, depth in ((1, 200), (2, 201), (3, 700)):
        machine.receive((number, CHUNKS, f"[1,{'[' * depth}{']' * depth}]"))
    machine.receive((4, CHUNKS, '[{"a":[1]}]'))
    assert [len(text) for text in machine.kept] == [404, 11]
