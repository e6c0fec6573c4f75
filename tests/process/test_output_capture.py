"""What functions print, log and warn, as the log of their own runs."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from interlock.client.http.client import Client
from interlock.fields.secret import MASK
from interlock.model.work import FunctionWork
from interlock.wire import message as m
from interlock.worker.context import LOG_CUT, MOST_BYTES
from tests.cli.terminal import in_a_terminal
from tests.helpers.places import until
from tests.helpers.server import Server
from tests.process.stage import Stage, executing

pytestmark = pytest.mark.behaviour("EXE-7")

JOBS = r"""
import asyncio, concurrent.futures, gc, logging, multiprocessing, os, resource, signal, subprocess, sys, threading, time
import warnings

import interlock as il

fork = multiprocessing.get_context("fork")
logger = logging.getLogger("app.work")
alone = logging.getLogger("alone")
alone.propagate = False
alone.addHandler(logging.StreamHandler(sys.stdout))
threads = concurrent.futures.ThreadPoolExecutor(4)
processes = concurrent.futures.ProcessPoolExecutor(2, fork)
logging.basicConfig()

def say(tag, number):
    print(tag, "print", number)
    logger.info("%s log %d", tag, number)
    alone.warning("%s alone %d", tag, number)
    warnings.warn(f"{tag} warn {number}")
    sys.stderr.write(f"{tag} stderr {number}\n")

def say_all(tag, first=0, last=5):
    for number in range(first, last): say(tag, number)

async def tasks(tag: str):
    async def one(number):
        await asyncio.sleep(0)
        say(tag, number)
    await asyncio.gather(*map(one, range(4)))
    await asyncio.to_thread(say, tag, 4)

def plain(tag: str): say_all(tag)

def started(tag: str):
    found = [threading.Thread(target=say, args=(tag, number)) for number in range(5)]
    for one in found: one.start()
    for one in found: one.join()

def pooled(tag: str): list(threads.map(say, [tag] * 5, range(5)))

async def run_in_executor(tag: str):
    loop = asyncio.get_running_loop()
    await asyncio.gather(*(loop.run_in_executor(None, say, tag, number) for number in range(5)))

def forked(tag: str):
    child = fork.Process(target=say_all, args=(tag, 0, 3))
    child.start()
    say_all(tag, 3, 5)
    child.join()

def in_processes(tag: str): list(processes.map(say, [tag] * 5, range(5)))

def words():
    print("one", "two", sep="\n")
    print("\x1b[31mred\x1b[0m", end="")
    print(" and", "10%\r20%")
    sys.stdout.buffer.write(b"bytes \xff\n")
    sys.stdout.writelines(["a", "b\n"])
    print()
    print("before the end", end="")
    print(sys.stdout.isatty(), file=sys.stderr)

def records():
    try: 1 / 0
    except ZeroDivisionError: logging.exception("wrong")
    logger.debug("too low")
    logging.getLogger("odd").critical("%d", "no number")
    logging.basicConfig(force=True, level=logging.DEBUG, format="again: %(message)s")
    logger.debug("now")
    logging.root.setLevel(logging.INFO)
    traceback_of_a_thread = threading.Thread(target=lambda: 1 / 0)
    traceback_of_a_thread.start()
    traceback_of_a_thread.join()

def secrets(password: str):
    print("it is", password)
    logger.info("it is %s", password)
    warnings.warn(password)
    child = fork.Process(target=print, args=(password,))
    child.start()
    child.join()

def hundred_megabytes(ctx: il.Context):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(100_000): print("0123456789" * 100)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024

def one_line():
    for number in range(1000): print("0123456789" * 10_000, end="")

def programs(tag: str):
    os.write(1, b"descriptor\n")
    subprocess.run(["sh", "-c", "echo program; echo aside >&2; (sleep 60; echo late) & printf 'no end'"], check=True)
    print("printed")

class Talks:
    def __init__(self): self.me = self
    def __del__(self): print("gone"), logger.info("gone")

def reentrant(tag: str):
    # Finalizers and signal handlers print while their own thread prints; forks happen while other threads print.
    def chatter():
        for _ in range(5_000): print("x")
    others = [threading.Thread(target=chatter) for _ in range(2)]
    for one in others: one.start()
    gc.set_threshold(3)
    for number in range(200):
        for _ in range(5): Talks()
        print("made", number)
        if number % 40 == 0:
            child = fork.Process(target=print, args=("child", number))
            child.start()
            child.join()
    gc.set_threshold(700)
    for one in others: one.join()

async def interrupted():
    signal.signal(signal.SIGALRM, lambda *_: (print("signal"), logger.info("signal")))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    for number in range(3000): print("line", number)
    signal.setitimer(signal.ITIMER_REAL, 0)

async def unawaited(tag: str):
    async def fails(): raise ValueError(tag)
    task = asyncio.create_task(fails())
    task.me = None
    await asyncio.sleep(0.01)
    del task
"""
FILES = """
kind: Job
id: words
run: {function: "speech:records"}
---
kind: Job
id: program
run: {shell: "echo one; echo two >&2"}
"""
MIXED = ("tasks", "plain", "started", "pooled", "run_in_executor", "forked", "in_processes")
SAID = {
    "print": ("info", "stdout"),
    "log": ("info", "app.work"),
    "alone": ("warning", "alone"),
    "warn": ("warning", "py.warnings"),
    "stderr": ("warning", "stderr"),
}


@pytest.fixture
def place(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (folder / "speech.py").write_text(JOBS)
    monkeypatch.chdir(folder)
    return folder


def speech(name: str) -> FunctionWork:
    return FunctionWork(function=f"speech:{name}")


def said(stage: Stage, run_id: str) -> list[tuple[str, str, str]]:
    return [(one.level, one.logger, one.text) for one in stage.of(run_id) if isinstance(one, m.LogMessage)]


TWO_FORKS = """
import os, socket, sys, threading
from interlock.wire import frames
from interlock.wire.message import Started
from interlock.worker.outbox import Copies

made, both = socket.socketpair, threading.Barrier(2)

def slow(*given):
    # Both threads are here at once, if nothing prevents it.
    try: both.wait(0.5)
    except threading.BrokenBarrierError: pass
    return made(*given)

def fork(number):
    if os.fork() == 0:
        original.send(frames.encode([Started(f"run{number}", 1, 0.0)]))
        os._exit(0)

def become_copy(end):
    global original
    original = end

socket.socketpair, taken = slow, threading.Semaphore(0)
copies = Copies(lambda message: (print(message.run_id), taken.release()), become_copy)
threads = [threading.Thread(target=fork, args=(number,)) for number in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
for _ in threads: taken.acquire(timeout=10)
"""


def test_of_two_processes_forked_at_once_both_are_heard() -> None:
    done = subprocess.run([sys.executable, "-c", TWO_FORKS], capture_output=True, text=True, timeout=60, check=True)
    assert sorted(done.stdout.split()) == ["run0", "run1"], done.stderr


async def test_two_hundred_runs_at_once_each_with_its_own_lines(place: Path) -> None:
    async with executing() as stage:
        names = [MIXED[number % len(MIXED)] for number in range(200)]
        tags = {
            stage.begin(speech(name), {"tag": f"{name}-{number}"}): f"{name}-{number}"
            for number, name in enumerate(names)
        }
        for run_id, tag in tags.items():
            end = await stage.end(run_id)
            assert isinstance(end, m.Finished)
            assert (end.outcome, end.error) == ("succeeded", None)
            found = [(level, logger, text.split(": ")[-1]) for level, logger, text in said(stage, run_id)]
            expected = [(*SAID[how], f"{tag} {how} {number}") for number in range(5) for how in SAID]
            assert Counter(found) == Counter(expected), tag
            if tag.startswith(("plain", "tasks")):
                assert found == expected
            numbers = [one.number for one in stage.of(run_id) if isinstance(one, m.LogMessage)]
            assert sorted(numbers) == list(range(1, 26))


async def test_printed_text_becomes_lines(place: Path) -> None:
    async with executing() as stage:
        end, lines = await stage.run(speech("words"))
        assert end.outcome == "succeeded"
        assert lines == ["one", "two", "20%", "bytes \ufffd", "ab", "", "False", "before the end"]


async def test_records_have_level_logger_and_traceback_and_come_once(place: Path) -> None:
    async with executing() as stage:
        run_id = stage.begin(speech("records"))
        assert (await stage.end(run_id)).__class__ is m.Finished
        wrong, odd, now, *thread = said(stage, run_id)
        assert wrong[:2] == ("error", "root")
        assert wrong[2].startswith("wrong\nTraceback")
        assert wrong[2].endswith("ZeroDivisionError: division by zero")
        assert odd[:2] == ("critical", "odd")
        assert "TypeError" in odd[2]
        assert now == ("debug", "app.work", "now")
        assert {one[:2] for one in thread} == {("warning", "stderr")}
        assert thread[-1][2] == "ZeroDivisionError: division by zero"


async def test_no_line_has_a_secret(place: Path) -> None:
    async with executing() as stage:
        _, lines = await stage.run(speech("secrets"), {"password": "open sesame"})
        assert [line.split(": ")[-1] for line in lines] == [f"it is {MASK}", f"it is {MASK}", MASK, MASK]


async def test_a_hundred_megabytes_are_cut_and_the_run_ends(place: Path) -> None:
    async with executing() as stage:
        end, lines = await stage.run(speech("hundred_megabytes"))
        assert end.outcome == "succeeded"
        assert int(end.result or b"") < 32 * 2**20
        assert lines.pop() == LOG_CUT
        assert set(lines) == {"0123456789" * 100}
        assert 0 <= MOST_BYTES - sum(map(len, lines)) < 1000
        end, (line,) = await stage.run(speech("one_line"))
        assert line.startswith("0123456789")
        assert len(line) < 8300


async def test_programs_and_descriptors_of_an_attempt_in_a_process_of_its_own(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A program that it leaves behind never writes to the log of the next attempt."""
    async with executing() as stage:
        runs = [stage.begin(speech("programs"), {"tag": "a"}, isolated=True)]
        await stage.end(runs[0])
        runs.append(stage.begin(speech("programs"), {"tag": "b"}, isolated=True))
        await stage.end(runs[1])
        for run_id in runs:
            assert Counter(said(stage, run_id)) == Counter(
                ("warning" if text == "aside" else "info", "stderr" if text == "aside" else "stdout", text)
                for text in ("descriptor", "program", "aside", "no end", "printed")
            )
        assert capfd.readouterr().out == ""
        shared = stage.begin(speech("programs"), {"tag": "c"})
        await stage.end(shared)
        assert stage.lines(shared) == ["printed"], "other attempts have the same descriptors"
        await until(lambda: "program" in capfd.readouterr().out, "it is where it always was")


@pytest.mark.parametrize(("name", "given", "expected"), [
    ("reentrant", {"tag": "a"}, {"x": 10_000, "made 199": 1, "child 160": 1}),
    ("interrupted", {}, {"line 2999": 1}),
    ("unawaited", {"tag": "mine"}, {}),
])  # fmt: skip
async def test_nothing_waits_for_itself(
    place: Path, name: str, given: dict[str, str], expected: dict[str, int]
) -> None:
    async with executing() as stage:
        run_id = stage.begin(speech(name), given)
        end = await stage.end(run_id)
        assert isinstance(end, m.Finished)
        assert (end.outcome, end.error) == ("succeeded", None)
        found = Counter(text for _, _, text in said(stage, run_id))
        assert {text: found[text] for text in expected} == expected
        if name == "reentrant":
            assert found["gone"] > 1000, "finalizers run in any thread, a few outside the attempt"
        if name == "interrupted":
            assert found["signal"] >= 2
        if name == "unawaited":
            assert any("mine" in text for text in found)


@pytest.mark.behaviour("RUN-20")
def test_the_logger_of_a_line_everywhere_and_the_line_on_the_terminal(place: Path) -> None:
    (place / "jobs.yaml").write_text(FILES)
    with Server(place, "jobs.yaml", "--http", "local", "--echo", target=None) as server:
        runs = {job: server.local.ended(server.local.submit(job))["id"] for job in ("words", "program")}
        lines = server.local.get(f"/api/v1/runs/{runs['words']}/logs").json["lines"]
        assert [(line["level"], line["logger"]) for line in lines][:3] == [
            ("error", "root"), ("critical", "odd"), ("debug", "app.work"),
        ]  # fmt: skip
        with Client(f"unix:{server.http_socket}") as client:
            assert {(one.level, one.logger, one.text) for one in client.logs(runs["program"])} == {
                ("info", "stdout", "one"),
                ("warning", "stderr", "two"),
            }
        assert "app.work: \x1b[0mnow" in in_a_terminal(place, "logs", runs["words"])
    echoed = [line.split(maxsplit=3)[1:] for line in server.said.splitlines()]
    assert [runs["words"][:16], "debug", "app.work: now"] in echoed
    assert [runs["program"][:16], "info", "one"] in echoed
