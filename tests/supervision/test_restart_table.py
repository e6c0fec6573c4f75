"""What follows when a child has ended: every combination as a row, held against the pure decision and a real tree."""

from itertools import product

import pytest

from interlock.model.child_info import Exit, Status
from interlock.supervision import Budget, OnExhausted, Restart, Strategy
from interlock.supervision.restart import decide, status_after
from tests.supervision.stage import Stage, running, virtually

run_test = virtually

# strategy   policy      ended  budget on_exhausted     decision
TABLE = """
one_for_one  always      well   left   stop_child       restart_child
one_for_one  always      well   left   fail_supervisor  restart_child
one_for_one  always      well   spent  stop_child       give_up
one_for_one  always      well   spent  fail_supervisor  fail_supervisor
one_for_one  always      badly  left   stop_child       restart_child
one_for_one  always      badly  left   fail_supervisor  restart_child
one_for_one  always      badly  spent  stop_child       give_up
one_for_one  always      badly  spent  fail_supervisor  fail_supervisor
one_for_one  on_failure  well   left   stop_child       leave
one_for_one  on_failure  well   left   fail_supervisor  leave
one_for_one  on_failure  well   spent  stop_child       leave
one_for_one  on_failure  well   spent  fail_supervisor  leave
one_for_one  on_failure  badly  left   stop_child       restart_child
one_for_one  on_failure  badly  left   fail_supervisor  restart_child
one_for_one  on_failure  badly  spent  stop_child       give_up
one_for_one  on_failure  badly  spent  fail_supervisor  fail_supervisor
one_for_one  never       well   left   stop_child       leave
one_for_one  never       well   left   fail_supervisor  leave
one_for_one  never       well   spent  stop_child       leave
one_for_one  never       well   spent  fail_supervisor  leave
one_for_one  never       badly  left   stop_child       leave
one_for_one  never       badly  left   fail_supervisor  leave
one_for_one  never       badly  spent  stop_child       leave
one_for_one  never       badly  spent  fail_supervisor  leave
one_for_all  always      well   left   stop_child       restart_all
one_for_all  always      well   left   fail_supervisor  restart_all
one_for_all  always      well   spent  stop_child       give_up
one_for_all  always      well   spent  fail_supervisor  fail_supervisor
one_for_all  always      badly  left   stop_child       restart_all
one_for_all  always      badly  left   fail_supervisor  restart_all
one_for_all  always      badly  spent  stop_child       give_up
one_for_all  always      badly  spent  fail_supervisor  fail_supervisor
one_for_all  on_failure  well   left   stop_child       leave
one_for_all  on_failure  well   left   fail_supervisor  leave
one_for_all  on_failure  well   spent  stop_child       leave
one_for_all  on_failure  well   spent  fail_supervisor  leave
one_for_all  on_failure  badly  left   stop_child       restart_all
one_for_all  on_failure  badly  left   fail_supervisor  restart_all
one_for_all  on_failure  badly  spent  stop_child       give_up
one_for_all  on_failure  badly  spent  fail_supervisor  fail_supervisor
one_for_all  never       well   left   stop_child       leave
one_for_all  never       well   left   fail_supervisor  leave
one_for_all  never       well   spent  stop_child       leave
one_for_all  never       well   spent  fail_supervisor  leave
one_for_all  never       badly  left   stop_child       leave
one_for_all  never       badly  left   fail_supervisor  leave
one_for_all  never       badly  spent  stop_child       leave
one_for_all  never       badly  spent  fail_supervisor  leave
rest_for_one always      well   left   stop_child       restart_rest
rest_for_one always      well   left   fail_supervisor  restart_rest
rest_for_one always      well   spent  stop_child       give_up
rest_for_one always      well   spent  fail_supervisor  fail_supervisor
rest_for_one always      badly  left   stop_child       restart_rest
rest_for_one always      badly  left   fail_supervisor  restart_rest
rest_for_one always      badly  spent  stop_child       give_up
rest_for_one always      badly  spent  fail_supervisor  fail_supervisor
rest_for_one on_failure  well   left   stop_child       leave
rest_for_one on_failure  well   left   fail_supervisor  leave
rest_for_one on_failure  well   spent  stop_child       leave
rest_for_one on_failure  well   spent  fail_supervisor  leave
rest_for_one on_failure  badly  left   stop_child       restart_rest
rest_for_one on_failure  badly  left   fail_supervisor  restart_rest
rest_for_one on_failure  badly  spent  stop_child       give_up
rest_for_one on_failure  badly  spent  fail_supervisor  fail_supervisor
rest_for_one never       well   left   stop_child       leave
rest_for_one never       well   left   fail_supervisor  leave
rest_for_one never       well   spent  stop_child       leave
rest_for_one never       well   spent  fail_supervisor  leave
rest_for_one never       badly  left   stop_child       leave
rest_for_one never       badly  left   fail_supervisor  leave
rest_for_one never       badly  spent  stop_child       leave
rest_for_one never       badly  spent  fail_supervisor  leave
"""
Decision = Strategy | OnExhausted | None
DECISIONS: dict[str, Decision] = {
    "restart_child": Strategy.ONE_FOR_ONE,
    "restart_all": Strategy.ONE_FOR_ALL,
    "restart_rest": Strategy.REST_FOR_ONE,
    "leave": None,
    "give_up": OnExhausted.STOP_CHILD,
    "fail_supervisor": OnExhausted.FAIL_SUPERVISOR,
}
Row = tuple[Strategy, Restart, bool, bool, OnExhausted, Decision]


def rows() -> list[Row]:
    return [
        (Strategy(a), Restart(b), {"well": True, "badly": False}[c], {"left": True, "spent": False}[d], OnExhausted(e),
         DECISIONS[f])
        for a, b, c, d, e, f in map(str.split, TABLE.split("\n")[1:-1])
    ]  # fmt: skip


@pytest.mark.behaviour("SUP-2", "SUP-3", "SUP-5")
@pytest.mark.parametrize(("strategy", "policy", "ended_well", "within_budget", "on_exhausted", "decision"), rows())
def test_decision(
    strategy: Strategy,
    policy: Restart,
    ended_well: bool,
    within_budget: bool,
    on_exhausted: OnExhausted,
    decision: Decision,
) -> None:
    found = decide(strategy, policy, on_exhausted, ended_well=ended_well, within_budget=within_budget)
    assert found is decision


def test_the_table_has_every_combination_once() -> None:
    every = list(product(Strategy, Restart, (True, False), (True, False), OnExhausted))
    assert sorted(row[:5] for row in rows()) == sorted(every)


# What each decision does to the children a, b and c when b has ended: what happens then, in order, and who is up.
FOLLOWS: dict[Decision, tuple[list[str], list[str]]] = {
    Strategy.ONE_FOR_ONE: (["start b"], ["a", "b", "c"]),
    Strategy.ONE_FOR_ALL: (["stop c", "stop a", "start a", "start b", "start c"], ["a", "b", "c"]),
    Strategy.REST_FOR_ONE: (["stop c", "start b", "start c"], ["a", "b", "c"]),
    None: ([], ["a", "c"]),
    OnExhausted.STOP_CHILD: ([], ["a", "c"]),
    OnExhausted.FAIL_SUPERVISOR: (["stop c", "stop a"], []),
}


@pytest.mark.behaviour("SUP-2", "SUP-3", "SUP-5")
@pytest.mark.parametrize(
    ("strategy", "policy", "ended_well", "within_budget", "on_exhausted", "decision"),
    # One that is never restarted cannot spend its budget.
    [row for row in rows() if row[1] is not Restart.NEVER or row[3]],
)
async def test_what_follows_in_a_tree(
    stage: Stage,
    strategy: Strategy,
    policy: Restart,
    ended_well: bool,
    within_budget: bool,
    on_exhausted: OnExhausted,
    decision: Decision,
) -> None:
    budget = Budget(max_restarts=1, max_duration=60, on_exhausted=on_exhausted)
    ended = stage.child("b", restart=policy, budget=budget)
    async with running(stage.child("a"), ended, stage.child("c"), strategy=strategy) as tree:
        if not within_budget:
            await stage.crash("b")
        stage.take()
        await stage.end("b", code=0 if ended_well else 1)
        happened, up = FOLLOWS[decision]
        assert stage.take() == ["end b", *happened]
        assert stage.names() == up
        after = tree.child("b")
        assert after.exhausted is isinstance(decision, OnExhausted)
        if decision is None:
            assert after.status is (Status.FINISHED if ended_well else Status.FAILED)
        elif after.exhausted:
            assert after.status is Status.FAILED
        else:
            assert after.status is Status.RUNNING
        assert tree.status is (Status.FAILED if decision is OnExhausted.FAIL_SUPERVISOR else Status.RUNNING)


@pytest.mark.behaviour("SUP-11")
@pytest.mark.parametrize(
    ("exit", "status"),
    [
        (Exit(at=0, code=0), Status.FINISHED),
        (Exit(at=0, code=1), Status.FAILED),
        (Exit(at=0, code=137), Status.FAILED),
        (Exit(at=0, signal=9), Status.KILLED),
        (Exit(at=0, signal=15), Status.KILLED),
        (Exit(at=0, error="ValueError: no"), Status.FAILED),
        (Exit(at=0, code=0, error="not well"), Status.FAILED),
        (Exit(at=0, signal=9, error="not well: a look failed"), Status.FAILED),
        (Exit(at=0), Status.FAILED),
    ],
)
def test_status_of_one_that_ended_by_itself_and_is_left(exit: Exit, status: Status) -> None:
    assert status_after(exit) is status
