"""Jobs that report how much of its window their session has used, and an estimator of it."""

import interlock as il

app = il.App()
WIDE: il.SessionFields = {"debounce": "0s", "max_concurrent": 9}


@app.usage
def estimated(ctx: il.Context) -> tuple[int, int] | None:
    if ctx.job_id == "estimated":
        return int(ctx.payloads[0]["tokens"]), 100
    if ctx.job_id == "misjudged":
        raise OSError("no model here")
    return None


@app.job("usage.async", sessions=WIDE)
async def use_async(ctx: il.Context, tokens: int, window: int = 100) -> str | None:
    ctx.usage(tokens, window)
    return ctx.session


@app.job("usage.thread", sessions=WIDE)
def use_in_thread(ctx: il.Context, tokens: int) -> str | None:
    ctx.usage(tokens, 100)
    return ctx.session


@app.job("usage.process", sessions=WIDE, processes=True)
def use_in_process(ctx: il.Context, tokens: int) -> str | None:
    ctx.usage(tokens, 100)
    return ctx.session


@app.job("estimated", sessions=WIDE)
def work(tokens: int) -> None:
    """Its usage is estimated after it has ended."""


@app.job("misjudged", sessions=WIDE)
def work_on() -> None:
    """Its usage cannot be estimated."""
