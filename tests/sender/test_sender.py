"""Deliveries: tries and delays over hours, circuits, order, places, reports, and what survives crashes."""

import logging
from collections.abc import Iterator
from itertools import pairwise

import pytest

from interlock.model.delivery import DeliveryState
from interlock.sender.places import MOST, MOST_PER_HOST
from interlock.sender.sender import FETCHED, LONGEST_SLEEP, MOST_REPORTED
from interlock.sender.transport import ReceivedAnswer
from tests.sender.stage import BROKEN, OK, Reply, Stage

HOUR = 3600.0
REFUSED = ReceivedAnswer(404, "", "answered 404")  # the host is well, so its circuit stays closed


@pytest.fixture
def stage() -> Iterator[Stage]:
    with_stage = Stage()
    yield with_stage
    with_stage.stop()
    with_stage.loop.close()


def answered(stage: Stage, script: dict[str, Reply]) -> None:
    """Let hosts answer by name; others are well."""
    stage.receivers._script = lambda host, id, nth: script.get(host, (0.0, OK))


@pytest.mark.behaviour("CON-7")
def test_a_delivery_is_made_once_and_its_answer_is_recorded(stage: Stage) -> None:
    stage.owe("d1")
    stage.start()
    stage.run(HOUR)
    row = stage.outbox.rows["d1"]
    assert (row.state, row.tries, row.status, row.answer, row.error) == (DeliveryState.DELIVERED, 1, 200, "fine", "")
    assert stage.receivers.times("d1") == [0]


def test_a_new_delivery_is_made_at_once(stage: Stage) -> None:
    stage.start()
    stage.run(100)
    stage.owe("d1")
    stage.run(1)
    assert stage.receivers.times("d1") == [100]


def test_a_delivery_without_a_message_is_found_within_a_minute(stage: Stage) -> None:
    stage.start()
    stage.run(1)
    peer, stage.scheduler.peer = stage.scheduler.peer, None
    stage.owe("d1")
    stage.run(LONGEST_SLEEP)
    assert len(stage.receivers.times("d1")) == 1
    stage.scheduler.peer = peer


@pytest.mark.behaviour("CON-7")
def test_tries_back_off_to_an_hour_until_the_delivery_is_given_up(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    answered(stage, {"a": (0.0, REFUSED)})
    stage.owe("d1", lasts=24 * HOUR)
    stage.start()
    stage.run(30 * HOUR)
    times = stage.receivers.times("d1")
    delays = [later - earlier for earlier, later in pairwise(times)]
    for place, delay in enumerate(delays):
        nominal = min(4.0**place, HOUR)
        assert 0.74 * nominal <= delay <= 1.26 * nominal
    assert len({round(delay / HOUR, 4) for delay in delays[6:]}) > 10
    row = stage.outbox.rows["d1"]
    assert (row.state, row.tries, row.error) == (DeliveryState.FAILED, len(times), "answered 404")
    assert 22.7 * HOUR < times[-1] < 24 * HOUR
    assert "gave up on delivery d1 (run.failed of j to a)" in caplog.text
    # Between tries nobody looks more often than the safety net does.
    assert stage.outbox.looks < 30 * HOUR / LONGEST_SLEEP + 4 * len(times)


def test_gone_is_given_up_at_once(stage: Stage) -> None:
    answered(stage, {"a": (0.0, ReceivedAnswer(410, "", "answered 410"))})
    stage.owe("d1")
    stage.start()
    stage.run(HOUR)
    assert stage.outbox.rows["d1"].state is DeliveryState.FAILED
    assert stage.receivers.times("d1") == [0]


@pytest.mark.behaviour("CON-7")
def test_a_failure_and_then_a_success(stage: Stage) -> None:
    stage.receivers._script = lambda host, id, nth: (0.0, BROKEN if nth == 1 else OK)
    stage.owe("d1")
    stage.start()
    stage.run(HOUR)
    row = stage.outbox.rows["d1"]
    assert (row.state, row.tries, row.error) == (DeliveryState.DELIVERED, 2, "")


def test_deliveries_of_one_order_follow_each_other_though_the_first_fails(stage: Stage) -> None:
    stage.receivers._script = lambda host, id, nth: (0.5, BROKEN if id == "d1" and nth < 3 else OK)
    stage.owe("d1", "d2", "d3", order="o")
    stage.owe("free")
    stage.start()
    stage.run(HOUR)
    assert [id for id in stage.receivers.ids("a") if id != "free"] == ["d1", "d1", "d1", "d2", "d3"]
    assert stage.receivers.times("free") == [0]
    first, second, third = stage.receivers.times("d1")
    assert 1.2 < second - first < 1.8
    assert 3.4 < third - second < 5.6
    assert stage.receivers.times("d2") == [third + 0.5]


def test_two_of_one_order_are_never_in_hand_though_the_store_shows_the_second(stage: Stage) -> None:
    stage.scheduler.commit_time = 1.0
    stage.scheduler.mute = True
    stage.owe("d1", "d2", order="o")
    stage.start()
    stage.run(30)
    stage.owe("d3", host="b")
    stage.run(30)
    assert stage.receivers.times("d2") == []
    assert len(stage.receivers.times("d3")) == 1


@pytest.mark.behaviour("CON-7")
def test_a_host_that_fails_is_left_alone_and_others_are_not(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    answered(stage, {"bad": (0.0, BROKEN)})
    stage.owe(*(f"b{n}" for n in range(300)), host="bad")
    stage.owe("g1", host="good")
    stage.start()
    stage.run(1)
    stage.owe("g2", host="good")
    stage.run(HOUR - 1)
    times = [at for at, host, _ in stage.receivers.posts if host == "bad"]
    at_once = MOST_PER_HOST + 5 - 1  # those that began before the circuit opened
    assert times[:at_once] == [0] * at_once
    assert times[at_once:] == [30, 90, 210, 450] + [750 + 300 * n for n in range(10)]
    assert stage.receivers.times("g1") == [0]
    assert stage.receivers.times("g2") == [1]
    assert "bad fails (answered 500); next try in 30s" in caplog.text
    answered(stage, {})
    stage.run(HOUR)
    assert "bad answers again" in caplog.text
    assert stage.outbox.pending() == []
    # An open circuit costs no more looks than its probes and the safety net.
    assert stage.outbox.looks < 2 * HOUR / LONGEST_SLEEP + 100


def test_probes_come_one_at_a_time(stage: Stage) -> None:
    answered(stage, {"bad": (20.0, BROKEN)})
    stage.owe(*(f"b{n}" for n in range(50)), host="bad")
    stage.start()
    stage.run(45)
    stage.receivers.most.clear()
    stage.run(HOUR)
    assert stage.receivers.most["bad"] == 1


def test_a_request_that_cannot_be_made_says_nothing_about_the_host(stage: Stage) -> None:
    unset = ReceivedAnswer(error="environment variable X is not set", made=False)
    stage.receivers._script = lambda host, id, nth: (0.0, unset if id.startswith("u") else OK)
    stage.owe(*(f"u{n}" for n in range(40)))
    stage.start()
    stage.run(1)
    stage.owe("d1")
    stage.run(1)
    assert stage.receivers.times("d1") == [1]


def test_a_probe_that_cannot_be_made_leaves_its_place_to_the_next(stage: Stage) -> None:
    answered(stage, {"a": (0.0, BROKEN)})
    stage.owe(*(f"d{n}" for n in range(30)))
    stage.start()
    stage.run(10)
    answered(stage, {"a": (0.0, ReceivedAnswer(error="environment variable X is not set", made=False))})
    stage.run(100)
    answered(stage, {})
    stage.run(HOUR)
    assert stage.outbox.pending() == []


def test_deliveries_to_a_host_that_is_gone_end_without_a_try_each(stage: Stage) -> None:
    answered(stage, {"bad": (0.0, BROKEN)})
    stage.owe(*(f"b{n}" for n in range(100)), host="bad", lasts=HOUR)
    stage.start()
    stage.run(2 * HOUR)
    assert stage.outbox.pending() == []
    assert len(stage.receivers.posts) < 60
    assert all(row.error for row in stage.outbox.rows.values())


@pytest.mark.behaviour("CON-7")
def test_one_slow_host_does_not_delay_another(stage: Stage) -> None:
    answered(stage, {"slow": (10.0, OK), "quick": (0.01, OK)})
    stage.owe(*(f"s{n}" for n in range(1000)), host="slow")
    stage.start()
    stage.run(1)
    stage.owe(*(f"q{n}" for n in range(160)), host="quick")
    stage.run(1)
    assert len(stage.receivers.ids("quick")) == 160
    assert stage.receivers.most["slow"] == stage.receivers.most["quick"] == MOST_PER_HOST
    stage.run(1000)
    assert stage.outbox.pending() == []


def test_hosts_share_the_places(stage: Stage) -> None:
    stage.receivers._script = lambda host, id, nth: (1.0, OK)
    for host in range(10):
        stage.owe(*(f"{host}-{n}" for n in range(50)), host=f"h{host}")
    stage.start()
    stage.run(0.5)
    assert stage.receivers.most["all"] == MOST
    assert {stage.receivers.most[f"h{host}"] for host in range(10)} == {6, 7}
    stage.run(60)
    assert stage.outbox.pending() == []


def test_a_busy_host_needs_few_queries_and_few_reports(stage: Stage) -> None:
    answered(stage, {"a": (0.05, OK)})
    stage.scheduler.commit_time = 0.1
    stage.owe(*(f"d{n}" for n in range(2000)))
    stage.start()
    stage.run(60)
    assert stage.outbox.pending() == []
    assert len(stage.receivers.posts) == 2000
    assert stage.outbox.fetches < 2 * 2000 / FETCHED + 10
    assert len(stage.scheduler.reports) < 2000 / MOST_PER_HOST + 10


def test_a_delivery_whose_result_is_stored_during_a_fetch_is_not_made_again(stage: Stage) -> None:
    stage.receivers._script = lambda host, id, nth: (6.5, OK)
    stage.outbox.fetch_time = 1.5
    stage.owe("d1")
    stage.start()
    stage.run(7)
    stage.owe("d2")  # looked for at 7.5, after a rest of four times the first look
    stage.run(HOUR)
    assert stage.receivers.times("d1") == [1.5]
    assert stage.receivers.times("d2") == [9]


def test_one_report_at_a_time_and_none_longer_than_its_limit(stage: Stage) -> None:
    for host in range(10):
        stage.owe(*(f"{host}-{n}" for n in range(100)), host=f"h{host}")
    stage.scheduler.commit_time = 10.0
    stage.start()
    stage.run(9)
    assert len(stage.scheduler.reports) == 1
    # While so much is unreported, nothing more begins.
    assert len(stage.receivers.posts) < MOST_REPORTED + MOST
    stage.run(100)
    assert max(map(len, stage.scheduler.reports)) <= MOST_REPORTED
    assert stage.outbox.pending() == []
    assert len(stage.receivers.posts) == 1000


@pytest.mark.behaviour("CON-7")
def test_a_sender_that_dies_before_its_report_leaves_the_delivery_to_the_next_with_the_same_id(stage: Stage) -> None:
    stage.scheduler.commit_time = 60.0
    stage.owe("d1")
    stage.start()
    stage.run(1)
    stage.loop._timers.clear()
    stage.stop()
    stage.scheduler.commit_time = 0.0
    stage.start()
    stage.run(1)
    assert stage.receivers.ids("a") == ["d1", "d1"]
    assert stage.outbox.pending() == []


def test_a_sender_that_is_stopped_leaves_what_is_under_way_to_the_next(stage: Stage) -> None:
    answered(stage, {"a": (10.0, OK)})
    stage.owe("d1")
    stage.start()
    stage.run(1)
    stage.stop()
    stage.start()
    stage.run(20)
    assert stage.receivers.times("d1") == [0, 1]
    assert stage.outbox.pending() == []


def test_after_a_broken_link_it_registers_again_and_repeats_its_report(stage: Stage) -> None:
    stage.scheduler.mute = True
    stage.owe("d1")
    stage.start()
    stage.run(1)
    stage.scheduler.mute = False
    assert stage.scheduler.peer is not None
    stage.do(stage.scheduler.peer.close)
    stage.run(1)
    assert stage.scheduler.registered == 2
    assert [[one.id for one in report] for report in stage.scheduler.reports] == [["d1"], ["d1"]]
    stage.owe("d2")
    stage.run(1)
    assert stage.receivers.ids("a") == ["d1", "d2"]


def test_a_refused_report_is_repeated_and_the_request_is_not(stage: Stage) -> None:
    stage.scheduler.problems = 5
    stage.owe("d1")
    stage.start()
    stage.run(60)
    assert stage.receivers.ids("a") == ["d1"]
    assert len(stage.scheduler.reports) == 6
    assert stage.outbox.pending() == []


def test_a_store_that_cannot_be_read_is_asked_again(stage: Stage) -> None:
    stage.outbox.down = True
    stage.owe("d1")
    stage.start()
    stage.run(10)
    assert 5 < stage.outbox.looks < 15
    stage.outbox.down = False
    stage.run(2)
    assert stage.outbox.pending() == []


@pytest.mark.parametrize("back", [HOUR, 24 * 365 * HOUR])
def test_a_clock_that_is_set_back_stalls_nothing(stage: Stage, back: float) -> None:
    stage.receivers._script = lambda host, id, nth: (0.0, REFUSED if nth < 4 else OK)
    stage.owe("d1")
    stage.start()
    stage.run(0.5)
    stage.set_back = back
    stage.owe("d2")
    stage.run(60)
    assert stage.outbox.pending() == []
    assert len(stage.receivers.times("d1")) == len(stage.receivers.times("d2")) == 4
    assert stage.receivers.times("d1")[-1] > 10


def test_a_sender_that_starts_after_the_clock_was_set_back_by_a_year_does_not_wait_for_a_year(stage: Stage) -> None:
    stage.owe("d1")
    stage.set_back = 24 * 365 * HOUR
    stage.start()
    stage.run(1)
    assert stage.outbox.pending() == []


@pytest.mark.behaviour("CON-7", "RUN-22")
@pytest.mark.parametrize("back", [HOUR, 24 * 365 * HOUR])
@pytest.mark.parametrize("tries", [0, 1, 3])
def test_a_sender_that_restarts_after_a_clock_error_waits_no_longer_than_the_delay(
    stage: Stage, back: float, tries: int
) -> None:
    stage.set_back = -back
    stage.receivers._script = lambda host, id, nth: (0.0, REFUSED)
    stage.start()
    stage.run(1)
    if not tries:
        stage.stop()
    stage.owe("d1", order="o")
    stage.owe("d2")
    if tries:
        stage.run({1: 0.5, 3: 9.0}[tries])
        stage.stop()
    stage.set_back = 0.0
    assert {row.tries for row in stage.outbox.rows.values()} == {tries}
    answered(stage, {})
    stage.start()
    stage.run({0: 0.5, 1: 1.5, 3: 21.0}[tries])
    assert stage.outbox.pending() == []


@pytest.mark.behaviour("CON-7", "RUN-22")
def test_a_clock_that_jumps_ahead_gives_nothing_up(stage: Stage) -> None:
    answered(stage, {"a": (0.0, REFUSED), "bad": (0.0, BROKEN)})
    stage.owe("d1")
    stage.owe(*(f"b{number}" for number in range(30)), host="bad")
    stage.start()
    stage.run(10)
    stage.set_back = -30 * 24 * HOUR
    stage.run(2 * HOUR)
    assert len(stage.outbox.pending()) == 31
    answered(stage, {})
    stage.run(2 * HOUR)
    assert stage.outbox.pending() == []
    assert {row.state for row in stage.outbox.rows.values()} == {DeliveryState.DELIVERED}
    stage.owe("late")
    answered(stage, {"a": (0.0, REFUSED)})
    stage.run(25 * HOUR)
    assert stage.outbox.rows["late"].state is DeliveryState.FAILED, "what is owed after the jump has its own day"
