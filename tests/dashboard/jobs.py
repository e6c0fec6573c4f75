"""An office full of work, for looking at: jobs that end, wait, fail, ask a person, and print what no page may obey."""

import asyncio
from typing import Any

import interlock as il

app = il.App()

HOSTILE = "<img src=x onerror=\"document.title='obeyed'\"><script>document.title='obeyed'</script>"
TURNED = "user\u202eexe.txt\u202c zero\u200bwidth \x1b[31mred\x1b[0m bell\x07 tab\tend javascript:alert(1)"


@app.job("report.build", max_runtime="10m")
async def report(ctx: il.Context, pages: int = 3) -> dict[str, Any]:
    for page in range(1, pages + 1):
        ctx.log(f"page {page} of {pages} written")
        ctx.progress(100 * page / pages, f"page {page} of {pages}")
    return {"pages": pages, "author": {"name": "Ann", "mail": "ann@example.org"}, "big": 2**60 + 1}


@app.job("report.nightly", max_runtime="1h")
async def nightly(ctx: il.Context) -> None:
    ctx.log("began to count")
    ctx.progress(40, "4 of 10 shelves")
    await asyncio.sleep(3600)


@app.job("orders.sync", max_runtime="10m")
async def sync(ctx: il.Context, customer: int = 0) -> str:
    ctx.log(f"orders of customer {customer} compared")
    return "nothing to do"


@app.job("import.csv", retry=il.Retry(max_retries=1, initial_delay=0.05, max_delay=0.1))
async def read_table(ctx: il.Context, line: int = 1) -> None:
    ctx.log("opening the file")
    raise ValueError(f"line {line} has 12 columns, expected 9")


@app.job("billing.refund", risk_tags=["money"])
async def refund(ctx: il.Context, invoice: int, cents: int = 0) -> str:
    return f"invoice {invoice}: {cents} cents returned"


@app.job("train.net", topic="train.net")
async def train(ctx: il.Context, epochs: int = 10) -> None:
    """No worker of its pool is connected."""


@app.job("mail.send")
async def send(ctx: il.Context, to: str = "ann") -> str:
    return to


@app.job("mail.private")
async def private(ctx: il.Context, to: str) -> str:
    return to


@app.job("hostile.text")
async def hostile(ctx: il.Context, text: str = "") -> dict[str, Any]:
    for line in (HOSTILE, TURNED, "two\nlines"):
        ctx.log(line)
    deep: Any = "bottom"
    for _ in range(150):
        deep = [deep]
    return {HOSTILE: TURNED, "deep": deep, "number": 2**60 + 1}
