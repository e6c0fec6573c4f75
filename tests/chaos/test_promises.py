"""The invariants of the chaos program bite: each is violated by a record that it must not allow."""

from typing import Any

import pytest

from interlock.model.state import State
from tests.chaos.load import Load
from tests.chaos.people import People
from tests.chaos.promises import Execution, check_promises
from tests.chaos.record import Look, Record, Run


def a_run(run_id: str, job_id: str, state: State = State.SUCCEEDED, session: str | None = None, number: int = 0) -> Run:
    return Run(run_id, job_id, None, state, 1, 0, 1.0, 0.0, session, number, "one")


def begun(run_id: str, at: float) -> Execution:
    return Execution(run_id, 1, at, 1, True, at + 0.1)


def violations(**given: Any) -> dict[str, list[str]]:
    people = People(1, Load(1, Record(None, {})))  # type: ignore[arg-type] # it reads no database
    people.approved |= given.pop("approved", set())
    people.leaked += given.pop("leaked", [])
    people.alone += given.pop("alone", [])
    fields: dict[str, Any] = {"every": [], "looks": [], "executions": [], "told": set()} | given
    found = check_promises(people=people, **fields)
    return {row.invariant: row.violations for row in found if row.violations}


TALKS = [a_run("a", "talk", session="s", number=1), a_run("b", "talk", session="s", number=2)]
WITHIN = [Look(at / 10, at / 10 + 0.05, int(at % 3 == 0)) for at in range(100)]
BEYOND = [*WITHIN[:50], WITHIN[50]._replace(paced=12), *WITHIN[51:]]
WRONG: dict[str, dict[str, Any]] = {
    "what the policy denies never starts": {
        "every": [a_run("a", "forbidden", State.DENIED)], "executions": [begun("a", 1.0)],
    },
    "nothing starts that must be approved and is not": {
        "every": [a_run("a", "asked")], "executions": [begun("a", 1.0)],
    },
    "nobody approves what they submitted": {"alone": ["a"]},
    "a withheld result is readable nowhere": {"leaked": ["a"]},
    "the runs of a session begin in order": {"every": TALKS, "executions": [begun("b", 1.0), begun("a", 2.0)]},
    "no more starts than its rate in any window": {"looks": BEYOND},
    "each webhook arrives at least once": {"every": [a_run("a", "telling")]},
}  # fmt: skip


@pytest.mark.parametrize("invariant", WRONG)
def test_a_wrong_record_is_found(invariant: str) -> None:
    assert list(violations(**WRONG[invariant])) == [invariant]


def test_a_right_record_is_not() -> None:
    every = [a_run("d", "forbidden", State.DENIED), a_run("p", "asked"), a_run("t", "telling"), *TALKS]
    executions = [begun("p", 0.5), begun("a", 1.0), begun("b", 2.0)]
    assert violations(every=every, executions=executions, looks=WITHIN, approved={"p"}, told={"t"}) == {}
