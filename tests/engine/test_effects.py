"""Effects beside the loop: bounded in number and time, and nothing waits for them that need not."""

import asyncio
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from interlock.engine.catalog import CatalogEntry
from interlock.engine.effects import FRAME, FRAME_BYTES, MOST_AT_ONCE, Effects
from interlock.error import PolicyClosed, PolicyUnavailable
from interlock.model.guard import Constraints, Hook
from interlock.model.job import Job
from interlock.model.policy.verdict import PolicyRequest, Ruling, Verdict
from interlock.wire import message as m
from interlock.wire import request as r
from interlock.wire.command import Answered
from interlock.wire.delivery_request import BecomeSender, HookRequest
from interlock.wire.effect import LIMIT, CheckPolicy, ReadInputs
from tests.engine.bench import Bench, SlowStore, on_virtual_time, pass_time, until

run_test = on_virtual_time

ALLOW = Verdict(ruling=Ruling.ALLOW)
LARGE = b'{"text": "' + b"x" * 1000 + b'"}'


@pytest.mark.behaviour("RUN-16", "RUN-7")
async def test_a_dispatch_whose_inputs_are_read_waits_for_no_write_but_its_own(bench: Bench, store: SlowStore) -> None:
    for _ in range(3):
        bench.submit(LARGE)
    await until(lambda: len(bench.client.of(r.Accepted)) == 3)
    store.inputs_take = 0.5
    worker = bench.worker("w")
    await until(lambda: bool(store.reading))
    assert [len(call) for call in store.reading] == [3], "one call for what one pass dispatched"
    store.takes = 100.0
    bench.submit()
    await until(lambda: len(worker.of(m.Dispatch)) == 3, 1.0)
    assert {one.payload for one in worker.of(m.Dispatch)} == {LARGE}
    assert len(bench.client.of(r.Accepted)) == 3, "the next write is still under way"


async def test_calls_to_the_outside_are_bounded_in_number_and_time() -> None:
    store = SlowStore()
    store.inputs_take = LIMIT / 2
    answers: list[object] = []
    effects = Effects(store, lambda origin, content: answers.append(content))
    asked = [ReadInputs(f"run{number}", 1) for number in range(2 * MOST_AT_ONCE)]
    for effect in [*asked, *asked]:
        effects.begin([effect])
    await pass_time(0.1)
    assert len(store.reading) == MOST_AT_ONCE
    await pass_time(LIMIT)
    assert len(answers) == len(asked), "one that is under way is not begun again"
    assert answers[0] == Answered([])
    store.inputs_take = 1000.0
    effects.begin(asked)
    await pass_time(LIMIT + 0.1)
    assert (store.reading, len(answers)) == ([], len(asked)), "given up"
    effects.begin(asked)
    await pass_time(0.1)
    await effects.close()
    assert store.reading == []
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.behaviour("POL-11")
async def test_the_policy_service_is_asked_in_frames() -> None:
    """Each frame has its own answer; a missing verdict says why, and a shutdown answers nothing."""

    def check(number: int, again: bool = False, size: int = 2) -> CheckPolicy:
        return CheckPolicy(f"run{number}", 1, (PolicyRequest(job="a", topic="a", payload=b"x" * size),), again)

    answers: list[Answered] = []
    calls: list[tuple[int, bool]] = []
    go_on = asyncio.Event()

    async def ask(requests: Sequence[PolicyRequest], again: bool) -> list[Verdict]:
        calls.append((len(requests), again))
        await go_on.wait()
        if again:
            raise PolicyUnavailable("away")
        if len(requests) == 1:
            raise PolicyClosed
        return [ALLOW for _ in requests]

    effects = Effects(SlowStore(), lambda origin, content: answers.append(content), check=ask)  # type: ignore[arg-type] # only these
    many = [check(number) for number in range(2 * FRAME)]
    more = [check(number, again=True) for number in range(500, 502)]
    large = [check(number, size=FRAME_BYTES) for number in range(600, 602)]
    for _ in range(2):
        effects.begin([*many, *more, *large])
    await pass_time(0.1)
    assert calls == [(FRAME, False), (FRAME, False), (2, True), (1, False)], "no more than this at once"
    late = [check(number) for number in range(700, 702)]
    for one in late:
        effects.begin([one])
    go_on.set()
    await pass_time(0.1)
    assert calls[4:] == [(1, False), (2, False)], "what waits shares a call, and is not begun again"
    found = {effect.run_id: answer for one in answers for effect, answer in one.answers}
    assert found == {one.run_id: (one.requests, [ALLOW]) for one in [*many, *late]} | {
        one.run_id: (one.requests, "away") for one in more
    }
    go_on.clear()
    effects.begin(many)
    await pass_time(0.1)
    await effects.close()
    assert len(answers) == 4
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.behaviour("SES-4", "POL-11")
async def test_the_requests_of_a_run_with_many_payloads_are_asked_in_several_frames() -> None:
    """Its verdicts come together, or none of them."""

    def check(number: int, sizes: Sequence[int]) -> CheckPolicy:
        requests = (PolicyRequest(job="a", topic=str(place), payload=b"x" * size) for place, size in enumerate(sizes))
        return CheckPolicy(f"run{number}", 1, tuple(requests))

    answers: list[Answered] = []
    calls: list[int] = []

    async def ask(requests: Sequence[PolicyRequest], again: bool) -> list[Verdict]:
        calls.append(len(requests))
        if len(calls) == 6:
            raise PolicyUnavailable("away")
        return [replace(ALLOW, rule=one.topic) for one in requests]

    effects = Effects(SlowStore(), lambda origin, content: answers.append(content), check=ask)  # type: ignore[arg-type] # only these
    mib = 1024 * 1024
    many, small, large = check(0, [2] * 250), check(1, [2] * 3), check(2, [mib] * 5)
    for one in (many, small, large):
        effects.begin([one])
    await pass_time(0.1)
    assert calls == [100, 100, 50, 3, 4, 1]
    found = {effect.run_id: answer for one in answers for effect, answer in one.answers}
    assert [one.rule for one in found["run0"][1]] == [str(place) for place in range(250)]
    assert [one.rule for one in found["run1"][1]] == ["0", "1", "2"]
    assert found["run2"][1] == "away"
    await effects.close()


async def test_an_answer_to_the_engine_before_a_recovery_does_not_go_before_the_jobs(
    bench: Bench, store: SlowStore
) -> None:
    bench.submit(LARGE)
    await until(lambda: bool(bench.client.of(r.Accepted)))
    store.inputs_take = 1.0
    bench.worker("w")
    await until(lambda: bool(store.reading))
    store.failing = True
    bench.submit()
    await until(lambda: not bench.engine.present.available)
    bench.engine.inbox.post("", Answered([]))
    known: list[bool] = []
    bench.engine.requests.settled = lambda: known.append("job" in bench.engine.state.jobs)  # type: ignore[method-assign]
    store.failing = False
    await until(lambda: bool(known))
    assert known == [True]


@pytest.mark.behaviour("RUN-2")
async def test_a_sender_is_asked_for_a_hook_once_its_run_is_stored() -> None:
    hooked = Job(id="hooked", constraints=Constraints(pre_run_hook=Hook(url="http://a.example/x", timeout="3s")))
    store = SlowStore()
    bench = Bench(store, entries=[CatalogEntry(hooked, lambda payload: None)])
    await bench.start()
    await until(lambda: len(store.commits) == 1)
    store.takes = 1.0
    bench.client.say(r.Submit(1, [r.NewRun("hooked", b"{}")]))
    await pass_time(0.5)
    bench.client.say(BecomeSender(2))
    await pass_time(0.1)
    assert (bench.client.of(HookRequest), store.runs_by_id) == ([], {})
    await until(lambda: bool(bench.client.of(HookRequest)))
    (request,) = bench.client.of(HookRequest)
    assert store.runs_by_id[request.run_id].seq == request.seq
    bench.client.say(BecomeSender(3))
    await until(lambda: len(bench.client.of(HookRequest)) == 2)
    assert bench.client.of(HookRequest) == [request] * 2
    await bench.stop()


async def test_a_hook_that_was_called_without_a_sender_is_asked_of_the_first_one() -> None:
    hooked = Job(id="hooked", constraints=Constraints(pre_run_hook=Hook(url="http://a.example/x", timeout="3s")))
    bench = Bench(SlowStore(), entries=[CatalogEntry(hooked, lambda payload: None)])
    await bench.start()
    bench.client.say(r.Submit(1, [r.NewRun("hooked", b"{}")]))
    await until(lambda: len(bench.client.of(r.Accepted)) == 1)
    bench.client.say(BecomeSender(2))
    await until(lambda: bool(bench.client.of(HookRequest)), 0.1)
    await bench.stop()
