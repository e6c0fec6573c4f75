"""A workflow that an event starts is checked like one that is submitted."""

import msgspec
import pytest

import interlock as il
from interlock.engine.catalog import CatalogEntry
from interlock.fields.secret import Secret, from_json
from interlock.model.access import OWNER
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
