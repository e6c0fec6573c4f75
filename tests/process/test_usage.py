"""The adaptive throttle, through a real scheduler and worker: reported by handlers, or estimated by the app."""

from pathlib import Path

import pytest

import interlock as il
from tests.helpers.places import run_async
from tests.helpers.server import Server
from tests.helpers.usage_jobs import app

KINDS = ("usage.async", "usage.thread", "usage.process", "estimated")


@pytest.mark.behaviour("SES-8")
def test_a_session_at_60_percent_starts_one_run_at_a_time(folder: Path) -> None:
    async def active_of_three(session: str) -> int:
        """Submit long runs; as many as may start do so in the same pass."""
        runs = await app.submit_many([il.run("hold", session=session) for _ in range(3)])
        states = [(await run.info()).state for run in runs]
        for run in reversed(runs):
            await run.cancel()
        for run in runs:
            await run.wait(30)
        return sum(state in (il.State.DISPATCHED, il.State.RUNNING) for state in states)

    async def body() -> None:
        async with app.connected(str(server.socket)):
            await app.put_job("hold", run={"shell": "sleep 60"}, sessions={"debounce": "0s", "max_concurrent": 9})
            for job in KINDS:
                for tokens, active in ((60, 1), (59, 3)):
                    run = await app.submit(job, {"tokens": tokens}, session=job)
                    assert await run.result(30) == (None if job == "estimated" else job)
                    assert await active_of_three(job) == active, (job, tokens)
            run = await app.submit("misjudged", session="a")
            await run.result(30)
            assert [(line.level, line.text.splitlines()[-1]) for line in await run.logs()] == [
                ("error", "OSError: no model here")
            ]
            run = await app.submit("usage.async", {"tokens": -1}, session="a")
            with pytest.raises(il.RunFailed, match="tokens: -1 is not a whole number"):
                await run.result(30)

    with Server(folder, target="tests.helpers.usage_jobs:app") as server:
        run_async(body())
