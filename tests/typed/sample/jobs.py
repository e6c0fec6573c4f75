"""Jobs of every shape of function."""

from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Any

import interlock as il

app = il.App()


class Style(Enum):
    SHORT = "short"
    LONG = "long"


@dataclass(frozen=True)
class Report:
    day: date
    pages: int


@app.job("report", retry=il.Retry(max_retries=2))
async def report(ctx: il.Context, day: date, pages: int = 1, *, style: Style = Style.SHORT) -> Report:
    ctx.log(f"{pages} pages, {style.value}")
    return Report(day, pages)


@app.job("square")
def square(number: int) -> int:
    """Return the square of a number."""
    return number * number


@app.job("halve", limit={"key": "number", "max": 2})
async def halve(number: int) -> float:
    return number / 2


@app.job("stop")
def stop(ctx: il.Context) -> None:
    ctx.log("stopped")


def join(payloads: list[dict[str, Any]]) -> dict[str, Any]:
    return {"text": "\n".join(str(one["text"]) for one in payloads)}


@app.job("chat", merge=join)
async def chat(ctx: il.Context, text: str) -> int:
    return len(ctx.payloads)
