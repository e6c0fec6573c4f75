"""An application: `interlock up -A examples.newcomer.jobs:app examples/newcomer/nightly.yaml`."""

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import date

import interlock as il

app = il.App()
log = logging.getLogger(__name__)


@dataclass
class Model:
    """Stands for a client of a language model: its first answer to a question is a time-out."""

    asked: dict[str, int] = field(default_factory=dict)

    async def ask(self, question: str) -> str:
        self.asked[question] = self.asked.get(question, 0) + 1
        if self.asked[question] == 1:
            raise TimeoutError("the model is busy")
        return f"about {question}"


@dataclass
class Report:
    day: date
    findings: list[str]


@app.lifespan
async def model() -> AsyncIterator[Model]:
    yield Model()


@app.job("research", retry=il.Retry(max_retries=5, initial_delay="100ms", on=(TimeoutError,)))
async def research(ctx: il.Context, day: date, topics: list[str]) -> Report:
    findings: list[str] = ctx.last_checkpoint or []
    for topic in topics[len(findings) :]:
        findings.append(await ctx.state.ask(topic))
        ctx.checkpoint(findings)
        ctx.progress(100 * len(findings) / len(topics), topic)
        log.info("%s is done", topic)
    return Report(day, findings)


@app.job("fingerprint", processes=True)
def fingerprint(text: bytes, rounds: int = 10_000) -> bytes:
    for _ in range(rounds):
        text = hashlib.sha256(text).digest()
    return text


@app.job("watch")
async def watch(ctx: il.Context) -> None:
    await asyncio.Event().wait()


@app.job("clean-up", schedule=il.cron("30 2 * * *", tz="Europe/Paris"))
def clean_up() -> None:
    print("cleaned up")


@app.service("ticker")
async def ticker() -> None:
    await asyncio.Event().wait()
