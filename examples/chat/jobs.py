"""The jobs: a toy agent that answers messages of conversations, and pages of batch work beside it."""

import asyncio
import re
from itertools import cycle, islice

import interlock as il

app = il.App()
LANES = {"chat": 10, "batch": 2}
SESSIONS: dict[str, il.SessionFields] = {
    "chat:*": {"mode": "interrupt"},  # a new message stops the answer to the last one
    "team:*": {"debounce": "2s"},  # messages in quick succession get one answer
}


@app.job("answer", lane="chat")
async def answer(ctx: il.Context, text: str) -> str:
    """Answer, word by word, all messages that the run stands for. A number in the last one is the length."""
    read = "; ".join(message["text"] for message in ctx.payloads)
    length = int(found[0]) if (found := re.search(r"\d+", text)) else 5
    words = ["I", "read:", f"{read}.", *islice(cycle(["Let", "me", "think", "about", "it."]), length)]
    for number, word in enumerate(words, 1):
        await asyncio.sleep(0.1)  # stands for a language model; a stop cancels the task here
        ctx.log(word)
        ctx.progress(100 * number / len(words))
    return " ".join(words)


@app.job("page", lane="batch", priority="batch")
async def page(number: int) -> int:
    await asyncio.sleep(0.05)
    return number
