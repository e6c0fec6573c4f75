"""Workflows in a store: their steps are read with them, listed when asked for, and deleted with them."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from interlock.core.workflows.flow import EndedStep
from interlock.model.facets import Facets, StepFacet
from interlock.model.run import Run
from interlock.model.state import State
from interlock.model.workflow import Undo
from interlock.ports.store import Lookup, PruneLimits, RunFilter
from interlock.stores.postgres import PostgresStore
from interlock.stores.sql.pruning import UNCOUNTED, find_prunable
from interlock.stores.sql.view import at_once
from interlock.stores.sqlite.database import connect_writer
from interlock.stores.sqlite.queries import SqliteView
from interlock.stores.sqlite.store import SqliteStore
from tests.contract.conftest import AnyStore
from tests.contract.samples import make_run, take
from tests.contract.test_pruning import put
from tests.helpers.pruning import prune

OLD = PruneLimits(ended_before=2000.0)


def flow(run_id: str, **fields: Any) -> Run:
    ended = {"state": State.SUCCEEDED, "created_at": 900.0, "started_at": 900.0, "ended_at": 1001.0}
    return make_run(run_id, **(ended | fields))


def step(run_id: str, **fields: Any) -> Run:
    parent = run_id.rpartition("@")[0]
    given = {"parent": parent, "root": run_id.partition("@")[0], "attempt": 1, **fields}
    return flow(run_id, **given)


@pytest.mark.behaviour("WFL-1")
async def test_the_record_of_a_workflow_is_its_ended_steps(store: AnyStore) -> None:
    await take(store)
    live = {"state": State.UNDER_WAY, "ended_at": None}
    await put(
        store, flow("f", **live), step("f@a", result=b"1"), step("f@b", result=b'"%s"' % (b"x" * 255)),
        step("f@c", state=State.FAILED, error="boom"), step("f@d", **live), step("f@d@e", result=b"2"),
    )  # fmt: skip
    found = (await store.look_up(Lookup(steps=["f", "gone"]))).steps
    assert found == {
        "f": [
            EndedStep("f@a", State.SUCCEEDED, b"1", True, "", False, 1001.0),
            EndedStep("f@b", State.SUCCEEDED, None, True, "", False, 1001.0),
            EndedStep("f@c", State.FAILED, None, False, "boom", False, 1001.0),
        ],
        "gone": [],
    }


@pytest.mark.behaviour("WFL-4", "WFL-5")
async def test_a_saga_is_the_completed_steps_and_items_without_a_compensation(store: AnyStore) -> None:
    def undoable(run_id: str, completed: int | None) -> Run:
        return step(run_id, facets=Facets(step=StepFacet(0, undo=Undo("release"), completed=completed)))

    await take(store)
    await put(
        store, flow("f", state=State.UNDER_WAY, ended_at=None), undoable("f@a", 9), undoable("f@b", 3),
        undoable("f@c", None), step("f@d"), undoable("f@e.1", 7), undoable("f@g", 8), step("f@comp-g"),
        undoable("f@h@i", 10), flow("g", facets=Facets(step=StepFacet(0, completed=1))),
    )  # fmt: skip
    found = (await store.look_up(Lookup(sagas=["f", "gone"]))).sagas
    assert found == {"f": ["f@b", "f@e.1", "f@a"], "gone": []}


async def test_steps_are_listed_when_they_are_asked_for(store: AnyStore) -> None:
    await take(store)
    await put(store, flow("f"), step("f@a"), make_run("plain"))
    for is_step, names in ((None, ["plain", "f@a", "f"]), (False, ["plain", "f"]), (True, ["f@a"])):
        rows = await store.runs(RunFilter(is_step=is_step), None, 10)
        assert [run.id for run in rows.runs] == names


async def test_a_workflow_is_deleted_with_its_steps_and_no_step_without_it(store: AnyStore) -> None:
    await take(store)
    live = {"state": State.UNDER_WAY, "ended_at": None}
    await put(
        store, flow("f"), step("f@a"), step("f@a@b"), flow("g", **live), step("g@a"), step("g@c"),
        make_run("last", created_at=900.0),
    )  # fmt: skip
    pruned = await prune(store, OLD)
    assert (pruned.runs, pruned.more) == (3, False)
    rows = await store.runs(RunFilter(), None, 10)
    assert sorted(run.id for run in rows.runs) == ["g", "g@a", "g@c", "last"]


@pytest.mark.parametrize("attempt", [0, 3], ids=["graph", "function"])
async def test_a_workflow_is_deleted_with_the_steps_of_all_its_turns(store: AnyStore, attempt: int) -> None:
    await take(store)
    await put(store, flow("f", attempt=attempt), step("f@a"), step("f@g", attempt=0), step("f@g.1"), make_run("last"))
    assert (await prune(store, OLD)).runs == 4
    assert [run.id for run in (await store.runs(RunFilter(), None, 10)).runs] == ["last"]


async def test_steps_push_no_run_of_their_job_out_and_the_total_counts_them(store: AnyStore) -> None:
    await take(store)
    plain = [flow(f"plain {number}", job_id="work") for number in range(3)]
    await put(store, *plain, flow("f", job_id="media"), *(step(f"f@s{number}", job_id="work") for number in range(9)))
    await put(store, flow("g", job_id="media"), make_run("last"))
    assert (await prune(store, PruneLimits(most=2))).runs == 1
    left = [run.id for run in (await store.runs(RunFilter(is_step=False), None, 99)).runs]
    assert left == ["last", "g", "f", "plain 2", "plain 1"]
    assert (await prune(store, PruneLimits(most=1))).runs == 1 + 10
    await put(store, flow("h", job_id="media"), *(step(f"h@s{number}", job_id="work") for number in range(9)))
    assert (await prune(store, PruneLimits(total=10))).runs == 2
    left = [run.id for run in (await store.runs(RunFilter(is_step=False), None, 99)).runs]
    assert left == ["h", "last"]


async def test_a_workflow_stays_while_something_holds_one_of_its_steps(store: AnyStore) -> None:
    await take(store)
    await put(store, flow("f"), step("f@a"), step("f@comp-a"), make_run("last"), letters=["f@comp-a"])
    assert (await prune(store, OLD)).runs == 0


async def test_the_steps_of_a_workflow_weigh_as_much_as_other_runs(sqlite: SqliteStore, database: Path) -> None:
    """One transaction deletes about 1,000 rows, so that others may write between."""
    await take(sqlite)
    for name in "fgh":
        await put(sqlite, flow(name), *(step(f"{name}@s{number}") for number in range(200)))
    await put(sqlite, make_run("last"))
    with closing(connect_writer(database)) as connection:
        found = at_once(find_prunable(OLD, UNCOUNTED, SqliteView(connection)))
        assert [len(part) for part in found.parts] == [1, 1, 1]


async def test_the_newest_run_stays_with_its_workflow(store: AnyStore) -> None:
    """A store that numbers runs counts on from it; one in memory does not."""
    await take(store)
    await put(store, flow("f"), step("f@a"))
    await prune(store, OLD)
    kept = [run.id for run in (await store.runs(RunFilter(), None, 10)).runs]
    assert kept == (["f@a", "f"] if isinstance(store, SqliteStore | PostgresStore) else [])
