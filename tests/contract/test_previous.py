"""The run before another one, which constraints ask for."""

import pytest

from interlock.model.state import State
from tests.contract.conftest import AnyStore
from tests.contract.samples import created, make_run
from tests.helpers.lookups import previous

CELL = "main"


@pytest.mark.behaviour("CON-1")
async def test_the_previous_run_has_begun_or_is_due(store: AnyStore) -> None:
    ended = {"ended_at": 2000.0}
    runs = [
        make_run("failed", state=State.FAILED, started_at=1000.0, **ended),
        make_run("a", state=State.SUCCEEDED, started_at=1500.0, **ended),
        make_run("skipped", state=State.SKIPPED, **ended),
        make_run("of_another_tenant", tenant="red", state=State.RUNNING, started_at=1.0),
        make_run("of_another_job", job_id="other", state=State.RUNNING, started_at=1.0),
        make_run("ahead", state=State.PRERUN),
        make_run("b", state=State.CONDITION_RUNNING),
        make_run("c", state=State.CONDITION_RUNNING),
    ]
    lease = await store.take(CELL, "holder", "token", 100.0)
    assert lease is not None
    await store.commit(created(*runs), lease)
    assert await previous(store, "failed") is None
    assert await previous(store, "a") == ("failed", State.FAILED, True)
    assert await previous(store, "b") == ("a", State.SUCCEEDED, True)
    assert await previous(store, "c") == ("b", State.CONDITION_RUNNING, False)
