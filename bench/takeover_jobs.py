"""A job that takes a moment, so that there are always runs to dispatch."""

import asyncio

import interlock as il

app = il.App()


@app.job("nap")
async def nap() -> None:
    await asyncio.sleep(0.2)
