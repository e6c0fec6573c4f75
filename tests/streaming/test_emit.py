"""The stream of an attempt in its worker: threads, limits, and what is kept for a scheduler that is away."""

import json
import threading

import pytest

from interlock.wire.message import CHUNKS, Dispatch, LogMessage, Message
from interlock.worker.context import MOST_BYTES, Context, Pacer

DISPATCH = Dispatch("r", 1, "job", 1, b"{}", None, False, 1.0, None)
pytestmark = pytest.mark.behaviour("RUN-27")


class Patient(Pacer):
    """It leaves sending to the end of the attempt."""

    def soon(self, stream: object) -> None: ...


def chunks_in(sent: list[Message]) -> list[object]:
    """Return the chunks that were sent; None for the mark of a cut stream."""
    texts = [json.loads(line.text) for line in sent if isinstance(line, LogMessage) and line.level == CHUNKS]
    return [chunk for chunks in texts for chunk in chunks or [None]]


def test_two_threads_that_emit_first_share_the_stream() -> None:
    both = threading.Barrier(2, timeout=10)

    class Meeting(Context):
        @property
        def pacer(self) -> Pacer:  # type: ignore[override] # both threads are here before either has a stream
            both.wait()
            return Patient()

    sent: list[Message] = []
    context = Meeting(DISPATCH, sent.append)
    threads = [threading.Thread(target=context.emit, args=[number]) for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    context.flush_stream()
    assert sorted(map(str, chunks_in(sent))) == ["1", "2"]


@pytest.mark.behaviour("SEC-6")
def test_a_worker_cuts_a_stream_at_its_own_limit_and_logs_it() -> None:
    sent: list[Message] = []
    context = Context(DISPATCH, sent.append)
    for _ in range(600):
        context.emit("x" * 30_000)
    context.log("more")
    chunks = chunks_in(sent)
    assert len(chunks) == 16 * 2**20 // 30_004 + 1
    assert chunks.index(None) == len(chunks) - 1, "one mark, the last"
    assert MOST_BYTES == 16 * 2**20
    lines = [line for line in sent if isinstance(line, LogMessage) and line.level != CHUNKS]
    assert [(line.level, line.text) for line in lines] == [
        ("warning", "stream and log cut: 100,000 lines or 16 MiB; further lines are left out")
    ]
    numbers = [line.number for line in sent if isinstance(line, LogMessage)]
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.behaviour("SEC-6")
def test_a_forked_process_at_its_limit_cuts_the_stream() -> None:
    sent: list[Message] = []
    context = Context(DISPATCH, sent.append)
    for text in ('["a","b"]', "[]", '["c"]'):
        context.take_chunks(text)
    assert chunks_in(sent) == ["a", "b", None]
