"""A workflow that an event starts is checked like one that is submitted."""

import asyncio

import msgspec
import pytest

import interlock as il
from interlock.core.workflows.flow import Flows
from interlock.engine.catalog import CatalogEntry
from interlock.fields.secret import Secret, from_json
from interlock.model.access import OWNER
from interlock.ports.store import Found, Lookup
from interlock.wire import message as m
from interlock.wire import request as r
from interlock.wire.event_request import SendEvent
from tests.engine.bench import Bench, SlowStore, on_virtual_time, until

run_test = on_virtual_time
app = il.App()


@app.workflow("order", payload={"token": "own"})
async def order(ctx: il.WorkflowContext, token: il.Secret, cents: int = 5) -> None:
    await ctx.event("paid", int)


@pytest.mark.behaviour("WFL-10")
@pytest.mark.parametrize(
    ("given", "stored", "refused"),
    [
        (b"", {"token": Secret("own")}, ""),
        (b'{"token": "t", "cents": 7}', {"token": Secret("t"), "cents": 7}, ""),
        (b'{"token": "t", "cents": "many"}', None, "payload of 'order': argument 'cents': expected int, got str"),
        (b"{}", None, "payload of 'order': argument 'token' is missing"),
    ],
)
async def test_the_arguments_are_checked_and_their_secrets_marked(
    given: bytes, stored: dict[str, object] | None, refused: str
) -> None:
    definition = app.definitions["order"]
    bench = Bench(SlowStore(), entries=[CatalogEntry(definition.job, definition.check, definition.mark)])
    await bench.start()
    bench.client.say(SendEvent(1, "paid", b"1", workflow="order", key="k", start=given))
    await until(lambda: bool(bench.client.of(r.ValueAnswer) or bench.client.of(m.Problem)))
    runs = [run for run in bench.store.runs_by_id.values() if run.job_id == "order"]
    assert [from_json(msgspec.json.decode(run.payload or b"")) for run in runs] == ([stored] if stored else [])
    assert [run.created_by for run in runs] == ([OWNER.name] if stored else [])
    assert [problem.text for problem in bench.client.of(m.Problem)] == ([refused] if refused else [])
    await bench.stop()


@app.workflow("strict")
async def strict(ctx: il.WorkflowContext, cents: int) -> None:
    await ctx.event("paid", int)


@pytest.mark.behaviour("WFL-10")
@pytest.mark.parametrize("is_known", [True, False])
async def test_a_run_that_is_live_gets_its_event_whatever_another_would_start_with(is_known: bool) -> None:
    definition = app.definitions["strict"]
    entries = [CatalogEntry(definition.job, definition.check, definition.mark)] if is_known else []
    bench = Bench(SlowStore(), entries=[CatalogEntry(definition.job, definition.check, definition.mark)])
    await bench.start()
    bench.client.say(r.Submit(1, [r.NewRun("strict", b'{"cents": 5}', idempotency_key="k")]))
    await until(lambda: bool(bench.client.of(r.Accepted)))
    await bench.stop()
    bench = Bench(bench.store, entries=entries)
    await bench.start()
    bench.client.say(SendEvent(2, "paid", b"1", workflow="strict", key="k", start=b""))
    await until(lambda: bool(bench.client.of(r.ValueAnswer) or bench.client.of(m.Problem)))
    assert not bench.client.of(m.Problem)
    bench.client.say(SendEvent(3, "paid", b"1", workflow="strict", key="other", start=b""))
    await until(lambda: bool(bench.client.of(m.Problem)))
    wrong = "payload of 'strict': argument 'cents' is missing" if is_known else "job: 'strict' is not defined"
    assert [problem.text for problem in bench.client.of(m.Problem)] == [wrong]
    await bench.stop()


class SlowRecords(SlowStore):
    def __init__(self) -> None:
        super().__init__()
        self.let_read = asyncio.Event()
        self.let_read.set()

    async def look_up(self, wanted: Lookup) -> Found:
        if wanted.steps:
            await self.let_read.wait()
        return await super().look_up(wanted)


@pytest.mark.behaviour("WFL-10")
async def test_an_event_that_waited_for_a_record_is_answered_if_its_commit_fails() -> None:
    """It came in an earlier pass than the one that is refused."""
    definition, store = app.definitions["order"], SlowRecords()
    entry = CatalogEntry(definition.job, definition.check, definition.mark)
    before = Bench(store, entries=[entry])
    await before.start()
    before.client.say(SendEvent(1, "paid", b"1", workflow="order", key="k", start=b""))
    await until(lambda: bool(before.client.of(r.ValueAnswer)))
    await before.stop()
    store.let_read.clear()
    bench = Bench(store, entries=[entry])
    await bench.start()
    bench.client.say(SendEvent(1, "paid", b"2", workflow="order", key="k"))
    await until(lambda: bool(bench.engine.state.of(Flows).inbox))
    store.failing = True
    store.let_read.set()
    await until(lambda: bool(bench.client.of(m.Problem)))
    assert [problem.code for problem in bench.client.of(m.Problem)] == ["store_unavailable"]
    store.failing = False
    await until(lambda: bench.engine.present.available)
    bench.client.say(SendEvent(2, "paid", b"2", workflow="order", key="k"))
    await until(lambda: bool(bench.client.of(r.ValueAnswer)))
    await bench.stop()
