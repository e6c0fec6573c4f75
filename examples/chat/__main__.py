"""Chat in a terminal or from a pipe, with batch work beside it: `python -m examples.chat [DATABASE]`."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from itertools import count
from threading import Thread

import interlock as il
from examples.chat.jobs import LANES, SESSIONS, answer, app, page

HELP = """\
TEXT       send a message to the conversation
/in KEY    change the conversation: in chat:NAME a message interrupts the answer, in team:NAME messages are collected
/stop      stop the answer; /stopall: and all that wait
/sessions  list conversations with answers under way; /explain: why the last message is where it is
/batch N   show the batch work, after N more pages; /urgent: do a page ahead of those that wait
/wait N    wait for N words of each answer, or without N for its end; Ctrl-D ends the program"""
ENDED = sys.maxsize  # as a number of words


class Chat:
    def __init__(self) -> None:
        self.key = "chat:you"
        self.last: dict[str, il.RunHandle[str]] = {}  # run of the last message in each conversation
        self.words: dict[str, int] = {}  # words of each run so far
        self.pages = 0
        self.printed = ""  # run whose words end the printed text
        self.news = asyncio.Event()

    async def obey(self, line: str, tasks: asyncio.TaskGroup) -> None:
        match [*line.split(), ""]:
            case ["/in", key, ""]:
                self.key = key
            case ["/wait", number, *_]:
                most = int(number or ENDED)
                await self.until(lambda: all(words >= most for words in self.words.values()))
            case ["/urgent", _]:
                before = self.pages
                await (await page.options(priority="interactive").submit(0)).result()
                self.show(f"batch: the urgent page is done, {self.pages - before} others meanwhile")
            case ["/batch", number, *_]:
                most = self.pages + int(number or 0)
                await self.until(lambda: self.pages >= most)
                batch = {lane.id: lane for lane in await app.lanes()}["batch"]
                self.show(f"batch: {self.pages} pages done, {batch.active} active, {batch.waiting} waiting")
            case [command, *_] if command.startswith("/"):
                await self.look_or_stop(command)
            case [""]:
                pass
            case _:
                run = self.last[self.key] = await answer.options(session=self.key).submit(line)
                self.words[run.id] = 0
                tasks.create_task(self.follow(self.key, run))

    async def look_or_stop(self, command: str) -> None:
        if command == "/stop":
            stopped = await app.act_on_session(self.key, "stop")
            self.show(f"{self.key}: {'stopped' if stopped.acted else 'nothing to stop'}")
        elif command == "/stopall":
            await app.act_on_session(self.key, "stopall")
        elif command == "/sessions":
            async for session in app.sessions():
                self.show(f"{session.key}: {session.mode}, {session.active} active, {session.waiting} waiting")
        elif command == "/explain" and self.key in self.last:
            self.show((await self.last[self.key].explain()).sentence)
        else:
            self.show(HELP)

    async def follow(self, key: str, run: il.RunHandle[str]) -> None:
        """Print the words of an answer as they come, and its end if it was cut short."""
        async for _, event in app.events(run=run.id, types=["log", "run"]):
            if isinstance(event, il.LogEvent):
                self.words[run.id] += 1
                self.show(event.text, key, run.id)
            elif isinstance(event, il.RunEvent) and event.state in (il.State.CANCELLED, il.State.SKIPPED):
                self.show(f"[{event.state}: {event.transitions[-1].reason}]", key, run.id)
            self.news.set()
        self.words[run.id] = ENDED
        self.news.set()

    async def do_pages(self) -> None:
        """Keep 20 pages in the batch lane, where two execute at once."""
        async for _ in app.map(page, count(1), max_parallel=20):
            self.pages += 1
            self.news.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.news.clear()
            await self.news.wait()

    def show(self, text: str, key: str = "", run_id: str = "") -> None:
        """Print a line, or a word of a run, which continues the line of its last word."""
        goes_on = run_id and run_id == self.printed
        before = " " if goes_on else "\n" * bool(self.printed) + f"{key}: " * bool(key)
        print(before + text, end="" if run_id else "\n", flush=True)
        self.printed = run_id


async def typed_lines() -> AsyncIterator[str]:
    """Yield the lines of standard input. A thread reads them, so that a person may take their time."""
    loop, lines = asyncio.get_running_loop(), asyncio.Queue[str]()

    def read() -> None:
        with open(0, closefd=False) as typed:
            for line in typed:
                loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, "")

    Thread(target=read, daemon=True).start()
    while line := await lines.get():
        yield line.strip()


async def main(database: str = "chat.db") -> None:
    running = app.running(database, http="local", lanes=LANES, sessions=SESSIONS, drain="1s")
    async with running, asyncio.TaskGroup() as tasks:
        chat = Chat()
        pages = tasks.create_task(chat.do_pages())
        async for line in typed_lines():
            if not sys.stdin.isatty():
                chat.show(f"> {line}")
            try:
                await chat.obey(line, tasks)
            except (il.InterlockError, ValueError) as error:
                chat.show(f"! {error}")
        await chat.obey("/wait", tasks)
        await chat.obey("/batch", tasks)
        pages.cancel()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main(*sys.argv[1:]))
