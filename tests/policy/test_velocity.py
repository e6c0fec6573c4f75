"""Sliding windows on virtual time."""

from typing import Any

import pytest

from interlock.model.policy.document import Match, PolicyDocument, Rule, Velocity
from interlock.model.policy.verdict import PolicyRequest, Ruling
from interlock.policy.policy import Policy
from interlock.policy.velocity import Windows

pytestmark = pytest.mark.behaviour("POL-5")


def limited(key: str = "", most: int = 2, **more: Any) -> Policy:
    rules = (
        Rule(id="fast", velocity=Velocity(max_requests=most, window="10s", key=key), decision=Ruling.THROTTLE, **more),
        Rule(id="rest", decision=Ruling.ALLOW),
    )
    return Policy(PolicyDocument(id="p", rules=rules))


def request(**more: Any) -> PolicyRequest:
    return PolicyRequest(**{"job": "a", "topic": "a"} | more)


def test_the_rule_fires_beyond_the_rate_and_not_after_the_window() -> None:
    policy, windows = limited(), Windows()
    times = [(0.0, "rest"), (4.0, "rest"), (4.0, "fast"), (9.999, "fast"), (10.0, "rest"), (10.0, "fast"),
             (13.999, "fast"), (14.0, "rest"), (14.0, "fast"), (100.0, "rest")]  # fmt: skip
    # What was throttled did not count.
    assert [(at, policy.judge(request(), windows, at).rule) for at, _ in times] == times


@pytest.mark.parametrize(
    ("key", "same", "other"),
    [
        ("", {"tenant": "x", "actor": "x", "job": "x", "topic": "x", "session": "x", "labels": {"user": "x"}}, None),
        ("tenant", {"actor": "x"}, {"tenant": "x"}),
        ("actor", {"tenant": "x"}, {"actor": "x"}),
        ("topic", {"job": "x"}, {"topic": "x"}),
        ("job", {"topic": "x"}, {"job": "x"}),
        ("session", {"tenant": "x"}, {"session": "x"}),
        ("label:user", {"labels": {"other": "x"}}, {"labels": {"user": "x"}}),
    ],
)
def test_each_key(key: str, same: dict[str, Any], other: dict[str, Any] | None) -> None:
    policy, windows = limited(key, most=1), Windows()
    assert policy.judge(request(), windows, 0.0).rule == "rest"
    assert policy.judge(request(**same), windows, 0.0).rule == "fast"
    if other is not None:
        assert policy.judge(request(**other), windows, 0.0).rule == "rest"
        assert policy.judge(request(**other), windows, 0.0).rule == "fast"


def test_only_requests_that_meet_the_other_conditions_count() -> None:
    policy, windows = limited(match=Match(tenants=["x"]), when="payload.n > 1"), Windows()
    for asked in (request(), request(tenant="x", payload=b'{"n":1}'), request(tenant="x")):
        assert [policy.judge(asked, windows, 0.0).rule for _ in range(3)] == ["rest"] * 3
    assert len(windows) == 0
    counted = request(tenant="x", payload=b'{"n":2}')
    assert [policy.judge(counted, windows, 0.0).rule for _ in range(3)] == ["rest", "rest", "fast"]


def test_a_run_judged_again_is_not_counted() -> None:
    policy, windows = limited(most=1), Windows()
    assert policy.judge(request(), windows, 0.0).rule == "rest"
    assert policy.judge(request(), None, 0.0).rule == "rest"
    assert policy.judge(request(), windows, 0.0).rule == "fast"


def test_a_clock_that_is_set_back_leaves_no_window_full_for_longer_than_its_length() -> None:
    windows = Windows()
    assert [windows.exceeds("a", "", 2, 10.0, at) for at in (1000.0, 1000.0, 5.0, 14.0, 15.0)] == [
        False, False, True, True, False,
    ]  # fmt: skip


def test_a_full_memory_is_swept_and_is_strict_until_then() -> None:
    windows = Windows(most_times=4, most_keys=3)
    assert [windows.exceeds("a", key, 9, 10.0, 0.0) for key in "xyz"] == [False] * 3
    assert windows.exceeds("a", "w", 9, 10.0, 5.0)  # too many keys
    assert not windows.exceeds("a", "x", 9, 10.0, 5.0)
    assert windows.exceeds("a", "x", 9, 10.0, 5.0)  # too many times
    assert len(windows) == 4
    assert not windows.exceeds("a", "w", 9, 10.0, 10.0)  # the others have passed
    assert len(windows) == 3  # two of x, of which one is young, and that of w
