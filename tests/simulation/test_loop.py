"""Virtual time: it passes at once, in order, and says when nothing can happen any more."""

import asyncio
import time

import pytest

from soak.simulation.loop import Crashed, Deadlock, Livelock, Process, VirtualLoop


def test_an_hour_passes_at_once() -> None:
    loop = VirtualLoop()
    before = time.monotonic()
    loop.run_until_complete(asyncio.sleep(3600))
    assert loop.time() == 3600
    assert time.monotonic() - before < 60
    loop.close()


def test_timers_fire_by_time_and_then_in_the_order_they_were_set() -> None:
    loop = VirtualLoop()
    seen: list[tuple[str, float]] = []

    def note(name: str) -> None:
        seen.append((name, loop.time()))

    for name, when in (("b", 2.0), ("a", 1.0), ("c", 2.0), ("now", 0.0)):
        loop.call_later(when, note, name)
    cancelled = loop.call_later(1.5, note, "never")
    cancelled.cancel()
    loop.run_until_complete(asyncio.sleep(3))
    assert seen == [("now", 0.0), ("a", 1.0), ("b", 2.0), ("c", 2.0)]
    loop.close()


def test_waiting_for_what_never_comes_is_a_deadlock() -> None:
    loop = VirtualLoop()

    async def wait() -> None:
        await loop.create_future()

    with pytest.raises(Deadlock):
        loop.run_until_complete(wait())
    loop.close()


def test_going_in_circles_without_time_passing_is_noticed() -> None:
    loop = VirtualLoop()

    def circle() -> None:
        loop.call_soon(circle)

    circle()
    with pytest.raises(Livelock):
        loop.run_until_complete(asyncio.sleep(1))
    loop.close()


def test_a_paused_process_does_nothing_and_then_everything_in_order() -> None:
    loop = VirtualLoop()
    process = Process(loop, "one")
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            await asyncio.sleep(1)
            ticks.append(loop.time())

    async def main() -> None:
        process.spawn(tick())
        await asyncio.sleep(2.5)
        process.pause()
        await asyncio.sleep(5)
        assert ticks == [1, 2]
        process.resume()
        await asyncio.sleep(1.1)

    loop.run_until_complete(main())
    assert ticks == [1, 2, 7.5, 8.5]
    loop.close()


def test_a_killed_process_does_not_even_clean_up() -> None:
    loop = VirtualLoop()
    process = Process(loop, "one")
    seen: list[str] = []

    async def inner() -> None:
        await asyncio.sleep(5)
        seen.append("inner")

    async def work() -> None:
        asyncio.get_running_loop().create_task(inner())
        loop.call_later(5, seen.append, "timer")
        try:
            await asyncio.sleep(5)
        finally:
            seen.append("cleaned up")

    async def main() -> None:
        process.at_end.append(lambda: seen.append("ended"))
        process.spawn(work())
        await asyncio.sleep(1)
        process.kill()
        process.kill()
        await asyncio.sleep(10)

    loop.run_until_complete(main())
    assert seen == ["ended"]
    loop.close()


def test_what_a_process_raises_ends_the_simulation() -> None:
    loop = VirtualLoop()

    async def work() -> None:
        raise KeyError("gone")

    Process(loop, "one").spawn(work())
    with pytest.raises(Crashed, match="one raised KeyError"):
        loop.run_until_complete(asyncio.sleep(1))
    loop.close()


def test_an_error_in_a_callback_is_kept() -> None:
    loop = VirtualLoop()
    loop.call_soon(lambda: 1 // 0)
    loop.run_until_complete(asyncio.sleep(1))
    assert "ZeroDivisionError" in loop.errors[0]
    loop.close()
