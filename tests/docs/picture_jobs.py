"""The jobs of the picture in the README."""

import asyncio

import interlock as il

app = il.App()


@app.job("orders.sync", retry=il.Retry(max_retries=3, initial_delay="400ms", jitter=0))
async def sync(ctx: il.Context, shop: str) -> dict[str, int]:
    """Fails once, then works."""
    ctx.log(f"attempt {ctx.attempt}: asking {shop}")
    await asyncio.sleep(0.3)
    if ctx.attempt == 1:
        raise ConnectionError(f"{shop}: connection reset")
    ctx.log("42 orders read")
    await asyncio.sleep(0.5)
    return {"orders": 42}


@app.job("report.nightly")
async def report(ctx: il.Context, day: str) -> None:
    ctx.progress(60, "page 12 of 20")
    await asyncio.sleep(600)


@app.job("mail.send")
async def send(to: str) -> str:
    return "sent"


@app.job("thumbnails", processes=True)
def thumbnails(photos: int) -> int:
    return sum(range(photos * 100_000))


@app.job("import.csv")
async def read(file: str) -> None:
    raise il.Fatal(f"{file}: line 17 has 3 columns, 4 are expected")


@app.job("payment")
def pay(to: str, cents: int) -> str:
    return f"paid {cents} cents to {to}"


@app.workflow("onboard")
async def onboard(ctx: il.WorkflowContext, to: str) -> None:
    await ctx.run(send.call(to), name="welcome")
    await ctx.event("confirmed", bool, timeout="7d")
