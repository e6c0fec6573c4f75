"""Runs of a session that arrive together, through a real scheduler and worker: one goes on with all payloads."""

import sys
from pathlib import Path
from typing import Any

import pytest

import interlock as il
from tests.helpers.collecting_jobs import app
from tests.helpers.places import run_async
from tests.helpers.server import Server, interlock

TARGET = "tests.helpers.collecting_jobs:app"
READS = (
    f'{sys.executable} -c "import sys; print(sys.stdin.read(), end=str())"; cat "${{INTERLOCK_PAYLOADS:-/dev/null}}"'
)


async def submit(job: str, *payloads: dict[str, Any]) -> list[il.RunHandle[Any]]:
    return await app.submit_many([il.run(job, one, session=job) for one in payloads])


async def submit_texts(job: str, *texts: str, **more: Any) -> list[il.RunHandle[Any]]:
    return await submit(job, *({"text": text, **more} for text in texts))


@pytest.mark.behaviour("SES-4")
def test_one_run_gets_all_payloads_and_the_others_name_it(folder: Path) -> None:
    async def body() -> tuple[str, str]:
        async with app.connected(str(server.socket)):
            runs = {kind: await submit_texts(f"collect.{kind}", *"abc") for kind in ("async", "thread", "process")}
            secrets = [{"text": text, "password": f"hunter{place}"} for place, text in enumerate("abc")]
            runs["merged"] = await submit("collect.merged", *secrets)
            runs["picky"] = await submit_texts("collect.picky", *"ab", password="hunter2")
            await app.put_job("program", run={"shell": READS})
            runs["program"] = await submit("program", {"n": 1}, {"n": 2}, {"token": {"$secret": "hunter2"}})
            for first, *others in runs.values():
                for other in others:
                    with pytest.raises(il.RunDebounced) as debounced:
                        await other.result(30)
                    ended = debounced.value
                    assert (ended.run_id, ended.state, ended.into) == (other.id, il.State.SKIPPED, first.id)
            with pytest.raises(il.RunFailed) as caught:
                await runs.pop("picky")[0].result(30)
            assert str(caught.value.__cause__) == "ValueError: cannot merge •••"
            payloads = ["a", "b", "c"]
            assert {kind: await first.result(30) for kind, (first, *_) in runs.items()} == {
                "async": ["c", payloads],
                "thread": ["c", payloads],
                "process": ["c", payloads, True],
                "merged": ["a+b+c", payloads],
                "program": None,
            }
            lines = {kind: [line.text for line in await runs[kind][0].logs()] for kind in ("merged", "program")}
            assert lines["merged"] == ["••• is •••"] * 3 + ["in the end •••"]
            assert lines["program"] == ['{"token":"•••"}', '{"n":1}', '{"n":2}', '{"token":"•••"}']
            return runs["thread"][0].id, runs["thread"][1].id

    with Server(folder, "--http", "local", target=TARGET) as server:
        first, second = run_async(body())
        with il.Client(f"unix:{server.http_socket}") as client:
            with pytest.raises(il.RunDebounced) as caught:
                client.handle(second).result(30)
            assert caught.value.into == first
            assert client.get(first).facets["collected"] == {"payloads": 2, "bytes": 24}
            assert client.get(second).facets["collapsed_into"] == {"run_id": first}
        shown = {run_id: interlock(folder, "show", run_id).stdout.splitlines() for run_id in (first, second)}
        assert "collected\tpayloads 2, bytes 24" in shown[first]
        assert f"collapsed_into\trun_id {first}" in shown[second]
