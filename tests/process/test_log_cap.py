"""The log of a run that never stops talking, through a crash of the scheduler and a second attempt."""

from pathlib import Path

import pytest

from interlock.core.state import CoreLimits
from tests.helpers.jobs import app
from tests.helpers.places import lines_of, run_async, tell_to_go, until, until_true
from tests.helpers.server import Server

LAST = CoreLimits().log_full


@pytest.mark.behaviour("RUN-20")
def test_a_full_log_stays_full_through_a_restart_and_a_retry(folder: Path) -> None:
    async def body() -> None:
        async with app.connected(str(server.socket)):
            run = await app.submit("chatty", {"folder": str(folder), "lines": 10_050})

            async def is_full() -> bool:
                return any(line.text == LAST for line in await run.logs())

            await until_true(is_full, "the log is full")
            before = await run.logs()
            assert [line.text for line in before] == [f"attempt 1 line {number}" for number in range(10_000)] + [LAST]
            assert before[-1].level == "warning"
            await server.restart()
            tell_to_go(folder, "attempt-1")
            await until(lambda: lines_of(folder / "logged") == ["1", "2"], "the second attempt has logged")
            tell_to_go(folder, "attempt-2")
            assert await run.result(30) == 2
            assert await run.logs() == before

    with Server(folder) as server:
        run_async(body())
