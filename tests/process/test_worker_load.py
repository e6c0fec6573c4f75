"""What the host of a worker says of its machine, what it does when nobody answers, and when its clock is off."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from interlock.model.run import Now
from interlock.ports.clock import LoopClock
from interlock.wire import message as m
from interlock.worker import load
from interlock.worker.host import Host, HostSettings
from soak.simulation.loop import VirtualLoop
from tests.helpers.places import until
from tests.helpers.played import OF_JOBS, worker_of
from tests.process.test_kept_lines import Link, Links, Silent

WALL = 1_700_000_000.0
SETTINGS = HostSettings(worker_id="w", slots=5, pool="gpu", labels={"region": "eu"}, capabilities=["cuda"])


class Late(LoopClock):
    """Its wall clock is ten minutes behind the scheduler's."""

    def now(self) -> Now:
        return Now(WALL - 600.0 + super().now().elapsed, super().now().elapsed)


class Taking(Silent):
    def __init__(self) -> None:
        self.taken: list[m.Dispatch] = []

    def start(self, attempt: m.Dispatch) -> None:
        self.taken.append(attempt)


def with_host(body: Callable[[Host, Links, Taking], Awaitable[None]]) -> None:
    """Its clock is late, and its machine is busier with each look."""
    looks = iter(range(1, 100))

    async def run() -> None:
        links, executor = Links(), Taking()
        host = Host(links, executor, {}, SETTINGS, Late(), lambda: m.Load(cpu=float(next(looks))))
        task = asyncio.get_running_loop().create_task(host.run())
        await asyncio.sleep(0.001)
        await body(host, links, executor)
        host.abandon()
        await task

    loop = VirtualLoop()
    try:
        loop.run_until_complete(run())
        assert loop.errors == []
    finally:
        loop.close()


def loads(link: Link) -> list[float]:
    return [one.cpu for one in link.sent if isinstance(one, m.Load)]


def of(link: Link, kind: type[m.Message]) -> Sequence[m.Message]:
    return [one for one in link.sent if isinstance(one, kind)]


@pytest.mark.behaviour("ROU-10", "LIV-1")
def test_it_says_what_it_is_and_how_busy_every_interval_and_beats_only_with_work() -> None:
    async def body(host: Host, links: Links, executor: Taking) -> None:
        (link,) = links.links
        (hello,) = of(link, m.Hello)
        assert isinstance(hello, m.Hello)
        assert (hello.slots, hello.pool, hello.labels, hello.capabilities) == (5, "gpu", {"region": "eu"}, ["cuda"])
        assert hello.wall == WALL - 600.0
        assert loads(link) == [], "not before it is welcome"
        host.received(link, [m.Welcome(10.0)])
        for count in range(1, 6):
            await asyncio.sleep(0.001)
            assert loads(link) == [float(number) for number in range(1, count + 1)]
            host.received(link, [m.Seen()])
            await asyncio.sleep(9.999)
        assert of(link, m.Heartbeat) == []
        host.received(link, [m.Dispatch("run", 1, "job", 1, b"{}", None, False, 1.0)])
        await asyncio.sleep(10.0)
        assert len(of(link, m.Heartbeat)) == 1
        assert len(links.links) == 1

    with_host(body)


@pytest.mark.behaviour("ROU-10")
def test_a_worker_that_leaves_says_so_again_before_it_returns_what_it_is_still_given() -> None:
    """Its first word may be lost, and then it would be given the same run at once again."""

    async def body(host: Host, links: Links, executor: Taking) -> None:
        (link,) = links.links
        host.received(link, [m.Welcome(10.0), m.Dispatch("held", 1, "job", 1, b"{}", None, False, 1.0)])
        host.leave()
        assert len(of(link, m.Leaving)) == 1
        link.sent.clear()
        host.received(link, [m.Dispatch("late", 1, "job", 1, b"{}", None, False, 1.0)])
        assert link.sent == [m.Leaving(), m.Returned("late", 1, "the worker is leaving")]

    with_host(body)


def test_a_link_on_which_nothing_comes_is_given_up_after_three_intervals() -> None:
    async def body(host: Host, links: Links, executor: Taking) -> None:
        first = links.links[0]
        host.received(first, [m.Welcome(10.0), m.Dispatch("run", 1, "job", 1, b"{}", None, False, 1.0)])
        await asyncio.sleep(29.9)
        assert links.links == [first]
        await asyncio.sleep(0.2)
        assert len(links.links) == 2
        (hello,) = of(links.links[1], m.Hello)
        assert isinstance(hello, m.Hello)
        assert hello.held == [m.Held("run", 1)]
        # Its last words come too late, and count no more.
        host.received(first, [m.Stop("run", 1, "cancel"), m.Settled("run", 1)])
        assert host.running == 1
        host.received(links.links[1], [m.Welcome(10.0)])
        for _ in range(6):
            # Any message is a sign of life.
            await asyncio.sleep(10.0)
            host.received(links.links[1], [m.Heard(0.0, 0.0)])
        assert len(links.links) == 2

    with_host(body)


@pytest.mark.parametrize(("skew", "corrected"), [(600.0, True), (-7200.0, True), (0.9, False), (0.0, False)])
def test_a_clock_that_is_off_is_corrected_in_what_it_sends_and_what_it_is_given(skew: float, corrected: bool) -> None:
    async def body(host: Host, links: Links, executor: Taking) -> None:
        (link,) = links.links
        own = host._clock.now().wall
        host.received(link, [m.Welcome(10.0, wall=own + skew)])
        deadline = own + skew + 30.0
        host.received(link, [m.Dispatch("run", 1, "job", 1, b"{}", deadline, False, 1.0)])
        (dispatch,) = executor.taken
        assert dispatch.deadline == pytest.approx(own + 30.0 if corrected else deadline)
        host.report(m.LogMessage("run", 1, 1, own + 5.0, "info", "text"))
        (line,) = of(link, m.LogMessage)
        assert isinstance(line, m.LogMessage)
        assert line.at == pytest.approx(own + 5.0 + (skew if corrected else 0.0))
        # It is said again over the next link, and corrected once.
        host.closed(link)
        await asyncio.sleep(0.001)
        assert of(links.links[-1], m.LogMessage) == [line]

    with_host(body)


async def test_a_worker_process_announces_its_flags(folder: Path) -> None:
    where = ["--pool", "gpu", "--label", "region=eu", "--label", "zone=a,b", "--max-parallel", "8"]
    flags = [*where, "--capability", "cuda", "--capability", "ssd"]
    async with worker_of(folder, *OF_JOBS, *flags) as (script, _, _):
        await until(lambda: script.loads, "it says how busy its machine is")
        hello = script.heard[0]
        assert isinstance(hello, m.Hello)
        assert (hello.pool, hello.slots, hello.capabilities) == ("gpu", 8, ["cuda", "ssd"])
        assert hello.labels == {"region": "eu", "zone": "a,b"}
        assert hello.wall > WALL
        assert script.loads[0].memory > 0


STAT = "cpu  {} 0 0 {} 0 0 0 0 0 0\ncpu0 1 1 1 1\n"


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(load, "PROC", tmp_path)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    return tmp_path


@pytest.mark.behaviour("ROU-10")
def test_cpu_and_memory_are_those_of_the_machine(proc: Path) -> None:
    (proc / "stat").write_text(STAT.format(100, 900))
    (proc / "meminfo").write_text("MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 250 kB\n")
    meter = load.LoadMeter()
    for busy, idle, percent in ((130, 970, 30.0), (130, 970, 0.0), (130, 980, 0.0), (180, 980, 100.0), (1, 1, 0.0)):
        (proc / "stat").write_text(STAT.format(busy, idle))
        assert meter.measure() == m.Load(percent, 75.0, 0.0)


@pytest.mark.parametrize("text", ["", "cpu\n", "cpu a b c d e f g\n", "MemTotal: 5 kB\n", "MemTotal: x\n", "\x00"])
def test_what_cannot_be_read_is_nothing(proc: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (1e6, 0.0, 0.0))
    assert load.LoadMeter().measure() == m.Load(100.0, 0.0, 0.0), "the share of the load stands in"
    (proc / "stat").write_text(text)
    (proc / "meminfo").write_text(text)
    assert load.LoadMeter().measure() == m.Load(100.0, 0.0, 0.0)


@pytest.mark.behaviour("ROU-10")
def test_the_busiest_gpu_counts_and_its_faults_do_not(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (proc / "stat").write_text(STAT.format(1, 1))
    rates, nvml = [10, 85, 40], ModuleType("pynvml")
    for name, function in {
        "nvmlInit": lambda: None,
        "nvmlDeviceGetCount": lambda: len(rates),
        "nvmlDeviceGetHandleByIndex": lambda place: place,
        "nvmlDeviceGetUtilizationRates": lambda handle: SimpleNamespace(gpu=rates[handle]),
    }.items():
        setattr(nvml, name, function)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    meter = load.LoadMeter()
    assert meter.measure().gpu == 85.0
    rates.pop()
    assert meter.measure().gpu == 0.0, "one is lost"
    rates.append(0)
    assert meter.measure().gpu == 85.0

    def no_driver() -> None:
        raise RuntimeError("no driver")

    monkeypatch.setattr(nvml, "nvmlInit", no_driver, raising=False)
    meter = load.LoadMeter()
    assert [meter.measure().gpu, meter.measure().gpu] == [0.0, 0.0]
