"""The toy chat: its jobs on virtual time, and the conversation of the document on sessions, typed for real."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import interlock as il
from examples.chat.jobs import LANES, SESSIONS, answer, app, page
from interlock import testing
from tests.cli.terminal import Terminal
from tests.docs.blocks import of_language
from tests.helpers.server import environment

PAGES = 100


@pytest.fixture
def scheduler() -> Iterator[testing.VirtualScheduler]:
    """A scheduler with batch work that waits."""
    with testing.scheduler(app, lanes=LANES, sessions=SESSIONS) as found:
        for number in range(PAGES):
            found.submit(page.call(number))
        yield found


def lanes(scheduler: testing.VirtualScheduler) -> dict[str, il.LaneInfo]:
    return {lane.id: lane for lane in scheduler.drive(app.lanes())}


@pytest.mark.behaviour("LAN-3")
def test_chat_and_batch_work_do_not_wait_for_each_other(scheduler: testing.VirtualScheduler) -> None:
    asked = scheduler.now
    chats = [scheduler.submit(answer.options(session=f"chat:{place}").call("hello")) for place in range(LANES["chat"])]
    late = scheduler.submit(answer.options(session="chat:late").call("hello"))
    assert scheduler.fired("answer") == [asked] * LANES["chat"], "full batch lane, and they start at once"
    assert lanes(scheduler)["batch"].waiting == PAGES - 2
    before = len(ended(scheduler))
    scheduler.advance("700ms")
    assert {chat.state() for chat in chats} == {"running"}
    assert late.state() == "scheduled"
    assert len(ended(scheduler)) - before == 14 * LANES["batch"], "the chat lane is full, and pages go on"
    assert late.result() == "I read: hello. Let me think about it."


@pytest.mark.behaviour("LAN-5")
def test_an_urgent_page_goes_ahead_of_those_that_wait(scheduler: testing.VirtualScheduler) -> None:
    urgent = scheduler.submit(page.options(priority="interactive").call(1000))
    scheduler.advance("50ms")
    assert urgent.state() == "running"
    assert lanes(scheduler)["batch"].waiting > PAGES / 2


def ended(scheduler: testing.VirtualScheduler) -> list[il.RunInfo]:
    return [run for run in scheduler.runs("page") if run.state == "succeeded"]


@pytest.mark.behaviour("SES-2", "SES-5")
def test_a_message_interrupts_the_answer_and_a_stop_ends_it(scheduler: testing.VirtualScheduler) -> None:
    chat = answer.options(session="chat:you")
    first = scheduler.submit(chat.call("500 words"))
    scheduler.advance("1s")
    second = scheduler.submit(chat.call("600 words"))
    assert (first.wait(), second.state()) == ("cancelled", "running")
    assert scheduler.drive(app.act_on_session("chat:you", "stop")).acted
    assert second.wait() == "cancelled"
    assert not scheduler.drive(app.act_on_session("chat:you", "stop")).acted


@pytest.mark.behaviour("SES-4")
def test_quick_messages_get_one_answer(scheduler: testing.VirtualScheduler) -> None:
    team = answer.options(session="team:birds")
    first, second, third = [scheduler.submit(team.call(text)) for text in ("owls", "foxes", "bats")]
    assert first.result() == "I read: owls; foxes; bats. Let me think about it."
    for other in (second, third):
        with pytest.raises(il.RunDebounced) as error:
            other.result()
        assert error.value.into == first.id


def test_bad_lanes_and_sessions_of_a_test_are_refused() -> None:
    with pytest.raises(il.BadValue, match=r"lanes\.chat"):
        testing.scheduler(app, lanes={"chat": 0})
    with pytest.raises(il.BadValue, match="cap"):
        testing.scheduler(app, sessions={"*": {"cap": 0}})


def typed(folder: Path, *lines: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "examples.chat"], cwd=folder, env=environment(), input="\n".join(lines),
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


def test_the_conversation_of_the_document(folder: Path) -> None:
    (shown,) = [block.text for block in of_language("docs/sessions.md", "text") if block.text.startswith("> ")]
    lines = re.findall("^> (.*)$", shown, re.M)
    said = typed(folder, *lines)
    assert re.findall("^> (.*)$", said, re.M) == lines
    for text in (shown, said):
        parts = re.split("^> .*\n", text, flags=re.M)[1:]
        after = {line: "".join(parts[lines.index(line) :]) for line in lines}
        assert "chat:you: I read: hello. Let me think about it.\n" in after["hello"]
        assert re.search(r"chat:you: I read: Write 500 words\. Let\b", after["Write 500 words"])
        assert "[cancelled: interrupted by a later run]" in after["Only 3 words, please"]
        assert "chat:you: I read: Only 3 words, please. Let me think\n" in after["Only 3 words, please"]
        assert "chat:you: stopped\n" in after["/stop"]
        assert "[cancelled: stopped]" in after["/stop"]
        assert "The run collects further runs of session team:birds for " in after["/explain"]
        assert re.search("^team:birds: queue, 0 active, 1 waiting$", after["/sessions"], re.M)
        assert len(set(re.findall(r"^team:birds: \[skipped: debounced into (\w+)\]$", after["owls"], re.M))) == 1
        assert "team:birds: I read: owls; foxes; bats. Let me think about it.\n" in after["owls"]
        batch = re.findall(r"^batch: (\d+) pages done, (\d) active, (\d+) waiting$", text, re.M)
        assert all(int(waiting) > 0 for _, _, waiting in batch), "chat goes on beside batch work that waits"
        pages = [int(done) for done, *_ in batch]
        assert pages[1] >= pages[0] + 10, "batch work goes on beside an answer"
        (others,) = re.findall(r"urgent page is done, (\d+) others", text)
        assert int(others) < 12, "it does not wait for those that came before"
    assert "I read: hello" in typed(folder, "/wait nothing", "/in " + "x" * 513, "hi", "/in chat:me", "hello")


class Chat(Terminal):
    COMMAND = (sys.executable, "-m", "examples.chat")


def test_a_person_leaves_with_a_signal(folder: Path) -> None:
    with Chat(folder) as chat:
        chat.enter("5000 words\n")
        chat.wait_for("I read: 5000 words. Let")
        chat.enter("\x03")
        assert chat.ended() == 0
